"""Links from a step to the pages of the techniques that it changes."""

from collections.abc import Sequence

from ..escaping import escape
from ..spec import registry
from ..spec.techniques import Tag, step_tags
from .html import Html


def technique_links(tags: Sequence[Tag], to_root: str) -> Html:
    """Return links to the pages of techniques, separated by commas; '' for none.

    to_root: address of the site's root, seen from the page.
    """
    return Html(", ".join(_link(tag, to_root) for tag in tags))


def techniques_of_step(lab: str, step: str) -> Html:
    """Return a line of a lab's story that links to the techniques of a step, which only the site shows; '' for none."""
    links = [
        _link(tag, "../", ' class="technique on-site"', " hidden") for tag in step_tags(registry.get(lab)).get(step, ())
    ]
    return Html(f'<p class="step-techniques table-note">{" ".join(links)}</p>' if links else "")


def _link(tag: Tag, to_root: str, attributes: str = "", hidden: str = "") -> str:
    name = f"{'without ' * tag.taken_away}{escape(tag.technique.name)}"
    return f'<a{attributes} href="{to_root}techniques/{tag.technique.key}.html"{hidden}>{name}</a>'
