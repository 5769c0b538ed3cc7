"""Style rules of a page's first screen: the page itself holds those that may match there."""

import pytest

from roofbook.book.page_weight import first_screen

ARTICLE = '<article class="of-page"><h1 id="top">A</h1><svg class="icon"><path d="M0"/></svg><p class="a b">B</p>'
FAR = "x" * first_screen.LETTERS
PAGE = (
    f"<html data-theme='light'><head>{first_screen.sheet_links('site.css')}</head><body><nav class=\"bar\"></nav>"
    f'{ARTICLE}{FAR}<div class="far"></div></article><nav class="beside"></nav></body></html>'
)


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        ("p{top:0}", True),
        ("table{top:0}", False),
        (".a.b{top:0}", True),
        ("h1.a{top:0}", False),
        ("p#top{top:0}", False),
        ("h1#top,.far{top:0}", True),
        (".far p{top:0}", False),
        (".bar{top:0}", True),
        (".beside{top:0}", True),
        ("path{top:0}", True),
        ("*::before{top:0}", True),
        ("html[data-theme=dark] p:not(.c){top:0}", True),
        ("p:hover{top:0}", False),
        ("p:not(:hover){top:0}", True),
        ("@media (min-width:1px){.a{top:0}}", True),
        ("@media (min-width:1px){.far{top:0}}", False),
        ("@media print{p{top:0}}", False),
        ("@keyframes k{from{top:0}}", False),
    ],
)
def test_only_rules_that_match_the_first_screen_are_chosen(rule: str, matches: bool) -> None:
    assert bool(first_screen.rules(rule, PAGE)) == matches
    assert ".far" not in first_screen.rules(rule, PAGE)


def test_a_page_gets_its_rules_once_for_each_style_sheet() -> None:
    once = first_screen.with_rules(PAGE, "1", "p{top:0}")
    assert '<style data-sheet="1">p{top:0}</style>' in once and once.replace(">p{top:0}<", "><").count("<style") == 1
    assert first_screen.with_rules(once, "1", "h1{top:0}") == once
    assert '<style data-sheet="2">h1{top:0}</style>' in first_screen.with_rules(once, "2", "h1{top:0}")
    assert first_screen.without_rules(once) == first_screen.without_rules(PAGE) == PAGE
    assert first_screen.with_rules("<html></html>", "1", "p{top:0}") == "<html></html>"
