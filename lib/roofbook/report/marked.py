"""What came of a reader's answer to an exercise, in words for a terminal."""

from ..analysis import format as show
from ..measure.answer import Mark
from ..spec.exercise import Write
from ..spec.lab import Lab

WORDS = {"same": "as fast as", "undecided": "within the noise of"}


def words(found: Mark, lab: Lab, exercise: Write) -> str:
    """One line, and of a right answer that was timed another: its time, and how fast it is beside the step."""
    said = f"{exercise.name}: {found.said}"
    if found.timed is None:
        return said
    if "reason" in found.timed:
        return f"{said}\nIt could not be timed: {found.timed['reason']}"
    time = f"{show.duration(found.timed['seconds'])} per {lab.unit} on {found.timed['case']}"
    estimate, low, high = found.timed["ratio"]
    relation = found.timed["relation"]
    if relation in WORDS:
        beside = WORDS[relation]
    elif estimate < 1:
        beside = f"{show.factor(1 / estimate, 1 / high, 1 / low)} times as slow as"
    else:
        beside = f"{show.factor(estimate, low, high)} times as fast as"
    return f"{said}\n{time}: in this run {beside} the book's `{exercise.step}`"
