"""Icons drawn from the outlines that the theme ships."""

import re

import pytest

from roofbook.book.page_weight import icons


def test_an_icon_keeps_its_classes_and_data_and_says_nothing_to_a_screen_reader() -> None:
    drawn = icons.inline_icons(
        '<p><i class="theme-switch fa-solid fa-sun   fa-lg" data-mode="light" title="Light"></i></p>'
    )
    assert re.fullmatch(
        r'<p><svg class="icon theme-switch fa-sun fa-lg" viewBox="0 0 512 512" aria-hidden="true" data-mode="light">'
        r'<path d="M[^"]{100,}"/></svg></p>',
        drawn,
    )


def test_each_pack_has_its_own_outline() -> None:
    kinds = ("fa-solid", "fas", "fa-regular")
    solid, same, regular = (icons.inline_icons(f'<span class="{kind} fa-sun"></span>') for kind in kinds)
    assert solid == same != regular


@pytest.mark.parametrize("page", ['<i class="far-away"></i>', "<i>fa-solid</i>", '<i class="pick-key"></i>'])
def test_an_element_that_is_no_icon_stays(page: str) -> None:
    assert icons.inline_icons(page) == page


def test_an_icon_that_is_not_shipped_is_named() -> None:
    with pytest.raises(LookupError, match="fa-solid fa-no-such-thing"):
        icons.inline_icons('<i class="fa-solid fa-no-such-thing"></i>')
