"""Grades of a class: a CSV, a page, and the files that Gradescope and Classroom 50 read. All names and reasons are escaped."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from .. import strict_json
from ..analysis import format as show
from ..analysis.class_grades import Grade, TimedCase
from ..analysis.likeness import LikePair
from ..escaping import escape, printable, spreadsheet
from ..measure.sandbox import Sandbox
from ..paths import installed_book, write_whole
from ..spec.class_folder import ClassSubmission
from ..spec.credit import Credit, rounded
from .columns import Column, table
from .html import Table, html_page, with_code

DIGITS = 2
"""Digits of points behind the decimal point."""
MOST_REASON = 2000
"""Characters of a reason that are shown."""
SCHEMA = "classroom50/result/v1"
"""Name of Classroom 50's format, as foundation50/classroom50, wiki/Advanced-Autograding.md, has it."""
FROM_RUNNER = {
    "classroom": "CLASSROOM", "assignment": "ASSIGNMENT", "assignment_type": "ASSIGNMENT_TYPE", "owner": "OWNER",
    "submission": "SUBMISSION_TAG", "commit": "COMMIT_URL", "release": "RELEASE_URL", "review": "REVIEW_URL",
}  # fmt: skip
"""Fields of that format, and the variables in which its runner states them."""
STYLE = """
.grades table { border-collapse: collapse; font-size: 0.9rem; }
.grades caption { text-align: left; font-weight: 600; padding: 0.4rem 0; }
.grades :is(th, td) { text-align: left; vertical-align: top; padding: 0.25rem 0.6rem; }
.grades tr { border-top: 1px solid var(--roofbook-line); }
.grades .num { text-align: right; font-variant-numeric: tabular-nums; }
.grades :is(.wrap, .reason) { overflow-wrap: anywhere; min-width: 8rem; }
.grades .table-scroll { overflow-x: auto; }
html.measurements body:has(.grades) { max-width: 80rem; }
"""
"""Style of the tables, which the style sheet of a measurement's card has not."""
NOTE_ON_RANKS = (
    "A rank is one more than the number of submissions that are surely faster. Those of one rank are within the noise of each"
    " other. A submission that is wrong on any case has none."
)
NOTE_ON_LIKENESS = (
    "Likeness is the share of the smaller source's parts that the other one has too. Macros are expanded. Names, white space,"
    " comments and parts that most of the class has do not count. It accuses nobody: read both sources."
)


def points_text(points: float) -> str:
    """Return points without needless zeros.

    >>> points_text(60.0), points_text(33.333)
    ('60', '33.33')
    """
    return f"{points:.{DIGITS}f}".rstrip("0").rstrip(".")


def folder_of(out: Path, submission: ClassSubmission) -> Path:
    """Return the folder with the results of a submission."""
    return out / "submissions" / submission.key


def facts(count: int, device: str, steps: Sequence[tuple[str, str]], sandbox: Sandbox) -> list[str]:
    """Return sentences on how a class was judged. steps: (case, step) of each time; empty if none was taken."""
    sentences = [f"{count} submissions, judged on {device}."]
    sentences += [f"Timed in turns with `{step}` on {case}." for case, step in steps]
    if not sandbox.is_used:
        sentences.append(f"They ran without a sandbox: {sandbox.why_not}.")
    return sentences


def write_all(
    out: Path,
    grades: Sequence[Grade],
    ranks: Mapping[str, int],
    pairs: Sequence[LikePair],
    credit: Credit,
    task: str,
    cases: Sequence[str],
    sentences: Sequence[str],
    runner: Mapping[str, str],
) -> None:
    """Write grades.csv, index.html, and for each submission results.json and result.json.

    task: the lab, and the exercise. cases: those that are timed. sentences: those of `facts`. runner: as for `classroom50`.
    """
    for grade in grades:
        folder, rank = folder_of(out, grade.submission), ranks.get(grade.submission.key)
        write_whole(folder / "results.json", strict_json.dumps(gradescope(grade, rank), indent=2))
        write_whole(folder / "result.json", strict_json.dumps(classroom50(grade, task, runner), indent=2))
    write_whole(out / "grades.csv", as_csv(grades, ranks, credit, cases))
    style = (installed_book() / "book" / "_assets" / "card.css").read_text(encoding="utf-8") + STYLE
    write_whole(out / "index.html", page(grades, ranks, pairs, credit, f"Grades: {task}", sentences, style))


def as_csv(grades: Sequence[Grade], ranks: Mapping[str, int], credit: Credit, cases: Sequence[str]) -> str:
    """Return a line for each submission. cases: those that are timed."""
    heads = ["name", "folder", "points", "most_points", "right", "rank"]
    for case in cases:
        heads += [
            f"{name} ({case})" for name in ("against", "seconds", "ratio", "ratio_low", "ratio_high", "share_of_bound")
        ]
    lines: list[list[Any]] = [[*heads, "reasons"]]
    for grade in grades:
        by_case = {time.case: time for time in grade.times}
        right = ("yes" if grade.is_right else "no") if grade.is_judged else "not judged"
        line = [grade.submission.name, grade.submission.key, points_text(grade.points), points_text(credit.most), right]
        line.append(str(ranks.get(grade.submission.key, "")))
        for case in cases:
            line += _figures(by_case.get(case))
        lines.append([*line, _cut(" | ".join(grade.reasons))])
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(
        [[spreadsheet(" ".join(printable(value).split())) for value in line] for line in lines]
    )
    return out.getvalue()


def _figures(time: TimedCase | None) -> list[str]:
    if time is None:
        return [""] * 6
    figures = [*(f"{number:.6g}" for number in (time.seconds, *time.ratio)), f"{time.share:.6g}" if time.share else ""]
    return [time.step, *figures]


def _cut(text: str) -> str:
    return text if len(text) <= MOST_REASON else f"{text[:MOST_REASON]}..."


def gradescope(grade: Grade, rank: int | None) -> dict[str, Any]:
    """Return the content of Gradescope's `results.json`. All texts are shown as they are."""
    result: dict[str, Any] = {
        "score": round(grade.points, DIGITS),
        "output": printable(_summary(grade, rank)),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [
            {
                "name": printable(part.name),
                "score": score,
                "max_score": most,
                "status": "passed" if part.is_full else "failed",
                "output": printable(_cut(part.output)),
                "visibility": "visible",
            }
            for part, score, most in _rounded(grade, DIGITS)
        ],
    }
    if grade.is_right and grade.times:
        result["leaderboard"] = [
            {"name": f"Times as fast as {time.step}, {time.case}", "value": round(time.ratio[0], 3), "order": "desc"}
            for time in grade.times
        ]
    return result


def classroom50(grade: Grade, assignment: str, runner: Mapping[str, str]) -> dict[str, Any]:
    """Return the content of Classroom 50's `result.json`, whose points are whole.

    runner: variables of the environment, in which its runner names the submission. Elsewhere the submission's folder stands for
    its owner.
    """
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    instead = {
        "classroom": "class", "assignment": assignment, "assignment_type": "individual", "owner": grade.submission.key,
        "submission": f"submit/{grade.submission.key}", "review": runner.get("COMMIT_URL", "none"),
    }  # fmt: skip
    tests = [
        {
            "test-name": printable(part.name),
            "passed": part.is_full,
            "score": int(score),
            "max-score": int(most),
            "output": printable(_cut(part.output)),
        }
        for part, score, most in _rounded(grade, 0)
    ]
    return {
        "schema": SCHEMA,
        **{field: runner.get(name) or instead.get(field, "none") for field, name in FROM_RUNNER.items()},
        "datetime": now,
        "score": sum(int(score) for _, score, _ in _rounded(grade, 0)),
        "max-score": sum(int(most) for _, _, most in _rounded(grade, 0)),
        "tests": tests,
    }


def _rounded(grade: Grade, digits: int) -> list[tuple[Any, float, float]]:
    """Return (part, score, most) of each part with so many digits; the scores of a full part are its most."""
    most_points = rounded([part.most for part in grade.parts], digits)
    return [
        (part, most if part.is_full else min(most, round(part.score, digits)), most)
        for part, most in zip(grade.parts, most_points, strict=True)
    ]


def _summary(grade: Grade, rank: int | None) -> str:
    verdict = "right on all cases" if grade.is_right else "not right on all cases" if grade.is_judged else "not judged"
    lines = [verdict, *grade.reasons, *(f"{time.case}: {_speed(time)}" for time in grade.times)]
    return _cut("\n".join([*lines, f"rank {rank}"] if rank else lines))


def _speed(time: TimedCase) -> str:
    return f"{show.duration(time.seconds)}, {show.factor(*time.ratio)} times as fast as {time.step}"


def page(
    grades: Sequence[Grade],
    ranks: Mapping[str, int],
    pairs: Sequence[LikePair],
    credit: Credit,
    title: str,
    sentences: Sequence[str],
    style: str,
) -> str:
    """Return the page of a class. title: names the task. sentences: those of `facts`. style: the style sheet."""
    best_first = sorted(
        grades,
        key=lambda grade: (ranks.get(grade.submission.key, len(grades) + 1), -grade.points, grade.submission.name),
    )
    head = escape(title)
    intro = "".join(f"<p>{with_code(fact)}</p>\n" for fact in sentences)
    body = f"""<main class="measured grades">
<h1>{head}</h1>
{intro}{grade_table(best_first, ranks, credit).html}
<h2>Like sources</h2>
{like_table(pairs).html if pairs else "<p>No two sources are alike.</p>"}
<p>{escape(NOTE_ON_LIKENESS)}</p>
</main>"""
    return html_page(head, f"<style>{style}</style>", body)


def grade_table(grades: Sequence[Grade], ranks: Mapping[str, int], credit: Credit) -> Table:
    """Return the table of a class, with a line for each submission."""

    columns: list[Column[Grade]] = [
        Column("Submission", lambda grade: grade.submission.name, "wrap"),
        Column("Rank", lambda grade: str(ranks.get(grade.submission.key, show.DASH)), "num"),
        Column(f"Points of {points_text(credit.most)}", lambda grade: points_text(grade.points), "num"),
    ]
    for case, step in dict.fromkeys((time.case, time.step) for grade in grades for time in grade.times):
        columns += [
            Column(f"Time, {case}", partial(_figure, case, lambda time: show.duration(time.seconds)), "num"),
            Column(f"Times as fast as {step}", partial(_figure, case, lambda time: show.factor(*time.ratio)), "num"),
        ]
        if any(time.share for grade in grades for time in grade.times if time.case == case):
            columns.append(Column("Share of the bound", partial(_figure, case, _share), "num"))
    columns.append(Column("Not right", _first_reason, "reason"))
    return table("Grades", columns, grades, [NOTE_ON_RANKS])


def _figure(case: str, text: Callable[[TimedCase], str], grade: Grade) -> str:
    return next((text(time) for time in grade.times if time.case == case), show.DASH)


def _share(time: TimedCase) -> str:
    return show.percent(time.share) if time.share else show.DASH


def _first_reason(grade: Grade) -> str:
    further = f" (and {len(grade.reasons) - 1} more)" if len(grade.reasons) > 1 else ""
    return _cut(grade.reasons[0]) + further if grade.reasons else show.DASH


def like_table(pairs: Sequence[LikePair]) -> Table:
    """Return the table of like sources."""
    columns: list[Column[LikePair]] = [
        Column("Submission", lambda pair: pair.first, "wrap"),
        Column("Like", lambda pair: pair.second, "wrap"),
        Column("Likeness", lambda pair: show.percent(pair.share), "num"),
        Column("Remark", lambda pair: "the same, except for names and layout" if pair.is_exact else ""),
    ]
    return table("Pairs of like sources", columns, pairs)
