"""Animations that explain a technique: `scene` draws stages, one module each has a subject, `of_lab` finds those of a lab.

A lab has its animations in the file `animations.py` of its folder, as ANIMATIONS: step -> `Animation`. Numbers in them are the
constants of the step's kernel. The site shows one at its step, and on the page of its technique.
"""

import inspect
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import Path

from ...escaping import escape
from ...spec import registry
from ...spec.lab import Lab
from ..html import Html
from .scene import Animation


@lru_cache
def animations_of_lab(lab: Lab) -> Mapping[str, Animation]:
    """Return the animations of a lab by their steps; none without that file."""
    if not Path(inspect.getfile(type(lab))).with_name("animations.py").is_file():
        return {}
    animations: Mapping[str, Animation] = import_module(f"{lab.package}.animations").ANIMATIONS
    return animations


def animation_of_step(lab: str, step: str) -> Html:
    """Return the animation of a step of a lab's story, in a fold that only the site shows; '' for none."""
    animation = animations_of_lab(registry.get(lab)).get(step)
    if animation is None:
        return Html("")
    fold = f"<details><summary>Animation: {escape(animation.title)}</summary>\n{animation.html}</details>"
    return Html(f'<div class="step-animation on-site" hidden>{fold}</div>')


def animation_of_technique(technique: str) -> Html:
    """Return the first lab's animation of a technique, with a link to its step, for the technique's page; '' for none."""
    for lab in map(registry.get, registry.names_of_site()):
        for step, animation in animations_of_lab(lab).items():
            if animation.technique == technique:
                link = f'<a href="../labs/{escape(lab.name)}.html#step-{escape(step)}"><code>{escape(step)}</code></a>'
                return Html(f'{animation.html}\n<p class="table-note">Numbers of {link} in {escape(lab.title)}.</p>')
    return Html("")
