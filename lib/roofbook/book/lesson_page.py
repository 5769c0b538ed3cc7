"""Page of a lab's lesson: 50 minutes in acts, figures, questions with answers, and what it takes to run the lab.

The page labs/LAB/lesson is Markdown, so that search and links find it. The slides labs/LAB/slides.html are a page of their own.
"""

from collections.abc import Sequence
from pathlib import Path

from ..analysis import format as show
from ..analysis.store_devices import by_extent
from ..escaping import escape, markdown, raw_html
from ..report.animations import animation_of_step
from ..report.html import html_source, with_code
from ..spec import registry
from ..spec.exercise import exercises
from ..spec.lab import Lab
from ..spec.lesson import LENGTH, Act, Question, lesson
from ..spec.plan import Variant
from ..store.parquet import Store
from . import slide_files, slides
from .citation import Citation
from .input_hashes import InputHashes
from .lesson_figures import (
    LessonData,
    StepEffect,
    change,
    code,
    drawn,
    effect,
    effect_line,
    effects_of,
    lesson_data,
)
from .manifest import Manifest
from .references import references_of_lab
from .run_needs import installed_bytes, run_needs, stored_bytes


def update(root: Path, manifest: Manifest, now: InputHashes, store: Store) -> None:
    """Make the stale lessons and slides, and remove those of labs without a lesson."""
    labs = [registry.get(name) for name in registry.names_of_site()]
    list_path, made_from = root / "book" / "_generated" / "lessons.html", now.kernels()
    if manifest.stale(list_path, made_from):
        manifest.write(list_path, lesson_list([lab for lab in labs if lesson(lab)]), made_from)
    for lab in labs:
        page_path = root / "book" / "labs" / lab.name / "lesson.md"
        slides_path = slide_files.source_of(root, lab.name)
        described = lesson(lab)
        if described is None:
            page_path.unlink(missing_ok=True)
            slides_path.unlink(missing_ok=True)
            continue
        made_from = now.lesson(lab.name, store)
        if manifest.stale(page_path, made_from) or manifest.stale(slides_path, made_from):
            data = lesson_data(lab, described, store, by_extent(Store(root / "results", ("recorded",))))
            references = references_of_lab(root / "book" / "references.bib", lab.name)
            deck = slides.deck(data, Citation.of(root), references)
            manifest.write(slides_path, deck, made_from)
            manifest.write(page_path, page(data, root, len(deck.encode())), made_from)


def lesson_list(labs: Sequence[Lab]) -> str:
    """Return links to the lessons and slides of these labs, from a page at the site's root; '' without any."""
    lessons = "".join(
        f'<li><a href="labs/{lab.name}/lesson.html">{escape(lab.title)}</a> '
        f'(<a href="labs/{lab.name}/{slide_files.FILE}" aria-label="Slides: {escape(lab.title)}">slides</a>)</li>\n'
        for lab in labs
    )
    return f"<ul>\n{lessons}</ul>\n" if lessons else ""


def page(data: LessonData, root: Path, slide_bytes: int) -> str:
    """Return the page of a lesson as Markdown. root: of the checkout. slide_bytes: size of the slides."""
    lab, described = data.lab, data.lesson
    device = (
        f"Numbers without a device are of {data.data.store_device}, on {data.data.case().name}. " if data.data else ""
    )
    starts = described.starts()
    parts = [
        f"# {markdown(lab.title)}: a lesson of {LENGTH} minutes",
        f"For a class that knows {markdown(described.needs)}. Afterwards students can:",
        "\n".join(f"- {markdown(aim)}" for aim in described.aims),
        "In most acts the teacher shows a change, each student writes down a prediction, and then the figure with our "
        f"measurements answers. {markdown(device)} A click on a time opens its samples. The story of the lab has all steps and "
        "other devices.",
        raw_html(_materials(data, root, slide_bytes)),
        "## The plan",
        raw_html(_plan(described.acts, starts)),
    ]
    for act, start in zip(described.acts, starts, strict=True):
        parts += [f"## {_span(act, start)}: {markdown(act.title)}", raw_html(_act(data, act))]
    parts += [
        "## Questions",
        "For the end of the lesson, an exam or homework. Answers unfold. The slides have the questions without them.",
        raw_html(f'<ol class="lesson-questions">{"".join(_question(data, item) for item in described.questions)}</ol>'),
        "## Homework",
        _homework(lab, root),
        "## What it takes to run",
        _without_running(slide_bytes),
        raw_html(_needs(lab, root / "results")),
        "## How to cite",
        raw_html(html_source(Citation.of(root).bibtex_of_lab(lab.name, lab.title), "bibtex")),
    ]
    if references := references_of_lab(root / "book" / "references.bib", lab.name):
        parts += ["The problem is from:", "\n".join(f"- {markdown(reference)}" for reference in references)]
    return "\n\n".join(parts) + "\n"


def _materials(data: LessonData, root: Path, slide_bytes: int) -> str:
    """Return links to the slides, the story and the exercises."""
    lab = data.lab
    links = [
        f'<a href="{slide_files.FILE}">Slides</a> ({show.quantity(float(slide_bytes), "B")}; print them for a PDF)',
        f'<a href="../{lab.name}.html">Story</a>',
    ]
    if (root / "book" / "exercises" / f"{lab.name}.md").exists():
        links.append(f'<a href="../../exercises/{lab.name}.html">Exercises</a>')
    items = "".join(f"<li>{link}</li>" for link in links)
    return f'<ul class="lesson-materials">{items}</ul>'


def _span(act: Act, start: int) -> str:
    return f"{start} to {start + act.minutes} min"


def _plan(acts: tuple[Act, ...], starts: list[int]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{_span(act, start)}</th><td>{escape(act.title)}</td><td>{with_code(act.task)}</td></tr>'
        for act, start in zip(acts, starts, strict=True)
    )
    return (
        '<table class="lesson-plan"><thead><tr><th scope="col">When</th><th scope="col">What</th>'
        f'<th scope="col">Students</th></tr></thead><tbody>{rows}</tbody></table>'
    )


def _act(data: LessonData, act: Act) -> str:
    """Return an act as HTML: what the teacher shows, the students' task, the figures, and what to point out."""
    parts = [f'<p class="lesson-shows"><b>Show:</b> {with_code(act.shows)}</p>']
    if act.code:
        parts.append(code(act.code))
    if act.step:
        parts += [change(data, data.lab.variant(act.step)), animation_of_step(data.lab.name, act.step)]
    parts.append(f'<p class="lesson-task"><b>Students:</b> {with_code(act.task)}</p>')
    if data.data:
        parts += [drawn(data.data, name) for name in act.figures]
    if act.step:
        effects = effects_of(data.records, data.lab.variant(act.step), data.data)
        parts.append(effect(effects, linked=True) or '<p class="table-note">Not measured on a recorded device.</p>')
    parts.append(f'<p class="lesson-outcome"><b>Point out:</b> {with_code(act.outcome)}</p>')
    return "\n".join(filter(None, parts))


def _question(data: LessonData, question: Question) -> str:
    measured = ""
    if question.step and data.data:
        step = data.lab.variant(question.step)
        measured = _effects(step, effects_of([data.data], step, data.data))
    for probe in map(data.lab.variant, question.probes):
        effects = [effect_on for record in data.records for effect_on in effects_of([record], probe, record)]
        measured += _effects(probe, effects) or f"<p><code>{escape(probe.name)}</code>: not measured yet.</p>"
    return (
        f"<li><p>{with_code(question.text)}</p><details><summary>Answer</summary>\n<p>{with_code(question.answer)}</p>"
        f"{measured}</details></li>"
    )


def _effects(step: Variant, effects: Sequence[StepEffect]) -> str:
    """Return the effects of a step over its parent as a list; '' without any."""
    lines = "".join(effect_line(effect_on, linked=True) for effect_on in effects)
    change_words = f"<p><code>{escape(step.name)}</code> over <code>{escape(step.parent or '')}</code>:</p>"
    return f'{change_words}<ul class="effect">{lines}</ul>' if lines else ""


def _homework(lab: Lab, root: Path) -> str:
    """Return the exercises that continue the lesson, with links to the pages about them that the book has."""
    tasks = "\n".join(
        f"- `roofbook exercise {lab.name} {exercise.name}`: {markdown(exercise.task)}"
        for exercise in exercises(lab).write
    )
    links = {
        f"exercises/{lab.name}": "[The exercises]({}) also have a factor to predict and a knob to turn.",
        "for-a-course": "[For a course]({}) says how to hand them out and grade them.",
    }
    pages = " ".join(
        text.format(f"../../{name}.md") for name, text in links.items() if (root / "book" / f"{name}.md").exists()
    )
    return "\n\n".join(filter(None, (tasks, pages))) or "Let students predict the next step of the story."


def _without_running(slide_bytes: int) -> str:
    size = show.quantity(float(slide_bytes), "B")
    return (
        f"The lesson runs nothing: this page and the slides ({size}) are all you need, and they work from a disk. To measure "
        "in class, run the lab beforehand."
    )


def _needs(lab: Lab, results: Path) -> str:
    """Return the commands, the space on the disk, and the times of whole runs, as HTML."""
    commands = f"pip install roofbook\nroofbook run {lab.name}                       # on your device, at small sizes\n"
    commands += f"roofbook run {lab.name} --scale published     # at the sizes of the figures above\n"
    packages, rows = (show.quantity(float(size), "B") for size in (installed_bytes(), stored_bytes(lab, results)))
    needs = run_needs(lab, results)
    table = needs.html if needs.rows else '<p class="table-note">No run of this lab is recorded.</p>'
    note = (
        "Small sizes are for the CPU of a laptop. If the machine that built this copy has run them, the table has their time: "
        "<em>this machine</em> at <em>quick</em> sizes. Plain loops on one core make the published sizes slow on a CPU."
    )
    return (
        f"{html_source(commands, 'console')}<p>The packages take {packages} on the disk, and all recorded measurements of this "
        f"lab take {rows}.</p>\n{table}<p>{note}</p>"
    )
