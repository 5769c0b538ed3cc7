"""Links from a step to the pages of the techniques that it changes."""

from collections.abc import Sequence

from ..escaping import escape
from ..spec.techniques import Tag
from .html import Html


def technique_links(tags: Sequence[Tag], to_root: str, css: str = "") -> Html:
    """Return links to the pages of techniques, separated by commas; '' for none.

    to_root: address of the site's root, seen from the page. css: class of the links; `on-site` hides them in a notebook.
    """
    attributes = f' class="{css}"' * bool(css)
    hidden = " hidden" * ("on-site" in css.split())
    return Html(
        ", ".join(
            f'<a{attributes} href="{to_root}techniques/{tag.technique.key}.html"{hidden}>'
            f"{'without ' * tag.taken_away}{escape(tag.technique.name)}</a>"
            for tag in tags
        )
    )
