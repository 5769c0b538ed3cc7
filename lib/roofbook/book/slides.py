"""Slides of a lab's lesson: one HTML page that scrolls from slide to slide, and prints as one slide a sheet.

They have the style sheet of the site for figures and code, and book/_assets/slides.css for their own layout.
"""

import re
from collections.abc import Iterator, Sequence
from html import unescape

from ..escaping import escape
from ..report.html import with_code
from ..spec.lesson import ANSWER, LENGTH, Act
from .citation import Citation
from .lesson_figures import LessonData, change, code, drawn, effect, effects_of
from .page_html import on_site, unique_svg_ids

WRAPPED_FROM = 100
"""Letters of a line of code that fit on a slide."""

_FOR_PAGES = re.compile(r'\s*<a class="csv".*?</a>| data-(?:of|tip)="[^"]*"', re.S)
"""Parts of figures and tables that are for pages: files to take away, cards and labels of numbers."""


def deck(data: LessonData, citation: Citation, references: Sequence[str] = ()) -> str:
    """Return the slides of a lesson as an HTML page, in the folder of a lab's pages. references: the lab's, as text."""
    lab = data.lab
    slides = [_title(data), *(slide for act in data.lesson.acts for slide in _of_act(data, act)), _questions(data)]
    slides.append(_sources(data, citation, references))
    sections = "".join(
        f'<section class="slide" id="slide-{number}" aria-label="Slide {number} of {len(slides)}">{slide}'
        f'<p class="slide-number" aria-hidden="true">{number} / {len(slides)}</p></section>\n'
        for number, slide in enumerate(slides, 1)
    )
    body = _FOR_PAGES.sub("", unique_svg_ids(on_site(sections)))
    return f"""<!DOCTYPE html>
<html lang="en" data-theme="light" data-mode="light">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(lab.title)}: slides</title>
<link rel="icon" href="../../_static/favicon.svg">
<link rel="stylesheet" href="../../_static/site.css?v=">
<link rel="stylesheet" href="../../_static/slides.css?v=">
<script src="../../_static/slides.js?v=" defer></script>
</head>
<body class="slides">
<nav aria-label="Slides"><a href="lesson.html">Lesson</a> <button type="button" data-go="-1">Back</button>
<button type="button" data-go="1">Next</button> <button type="button" onclick="print()">Print, or save as PDF</button></nav>
<main>
{body}</main>
</body>
</html>
"""


def _title(data: LessonData) -> str:
    device = ""
    if data.data:
        device = f"<p>Measured on {escape(str(data.data.store_device))}, {escape(data.data.case().name)}</p>"
    return (
        f'<div class="slide-title"><h1>{escape(data.lab.title)}</h1><p>{escape(data.lab.about)}</p>'
        f"<p>A lesson of {LENGTH} minutes</p>{device}</div>"
    )


def _of_act(data: LessonData, act: Act) -> Iterator[str]:
    """Yield the slides of an act: the task with the code or the change, then each figure, the last with what it shows.

    The act with the lab's answer has no task, since the slide with the questions follows.
    """
    head = f"<h2>{escape(act.title)}</h2>"
    if ANSWER in act.figures:
        text = drawn(data.data, ANSWER, wide=True) if data.data else ""
        if text:
            yield f'<h2>The answer</h2><div class="slide-body">{text}</div>'
        return
    step = data.lab.variant(act.step) if act.step else None
    content = (code(act.code) if act.code else "") + (change(data, step) if step else "")
    content = content and f'<div class="slide-code" style="--lines:{_line_count(content)}">{content}</div>'
    yield f'{head}<div class="slide-body">{content}<p class="slide-task">{with_code(act.task)}</p></div>'
    figures = [drawn(data.data, name, wide=True) for name in act.figures] if data.data else []
    figures += [effect(effects_of(data.records, step, data.data), linked=False)] if step else []
    figures = [figure for figure in figures if figure]
    for number, figure in enumerate(figures, 1):
        outcome = f'<p class="slide-outcome">{with_code(act.outcome)}</p>' * (number == len(figures))
        yield f'{head}<div class="slide-body">{figure}{outcome}</div>'


def _line_count(code_html: str) -> int:
    """Return the number of lines of code on a slide, where long lines are wrapped: the more, the smaller its letters."""
    text = unescape(re.sub(r"<[^>]+>", "", "".join(re.findall(r"<pre.*?</pre>", code_html, re.S))))
    return sum(-(-max(1, len(line)) // WRAPPED_FROM) for line in text.splitlines())


def _questions(data: LessonData) -> str:
    entries = "".join(f"<li>{with_code(question.text)}</li>" for question in data.lesson.questions)
    task = data.lesson.acts[-1].task
    return (
        f'<h2>Questions</h2><div class="slide-body"><ol>{entries}</ol><p class="slide-task">{with_code(task)}</p></div>'
    )


def _sources(data: LessonData, citation: Citation, references: Sequence[str]) -> str:
    """Return the slide that names the origin of the problem and of the numbers."""
    listed = "".join(f"<li>{escape(reference)}</li>" for reference in references)
    origin = f"<p>The problem is from:</p><ul>{listed}</ul>" if listed else f"<p>{escape(data.lab.about)}</p>"
    address = f"<p>{escape(citation.repository)}</p>" if citation.repository else ""
    return (
        f'<h2>Sources</h2><div class="slide-body">{origin}'
        f"<p>Numbers and figures: {escape(citation.author)}, {escape(citation.title)} {escape(citation.version)}, lab "
        f"<code>{escape(data.lab.name)}</code>. Licence: {escape(citation.licence)}. Each number of the lesson's page leads "
        f"to its samples.</p>{address}</div>"
    )
