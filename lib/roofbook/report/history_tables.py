"""What changed over runs and commits: from the cards of all measurements the tables of the page of history."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ..analysis import format as show
from ..analysis.history import CODE, DRIVER, MACHINE
from ..measure.stats import CONFIDENCE
from .cards_page import KINDS
from .html import Cell, Row, Table

WORDS = ("faster", "slower", "same", "undecided")


@dataclass(frozen=True)
class Shown:
    """A card, and where it is: the lab's title, the device in words, and what a link to it names."""

    title: str
    on: str
    of: str
    card: Mapping[str, Any]

    @property
    def name(self) -> str:
        return f"{self.card['variant']} on {self.card['case']}"

    @property
    def device(self) -> str:
        """Of the rows: that of the page, or its host."""
        return str(dict(self.card["facts"])["Device"])


def all_shown(told: Iterable[Mapping[str, Any]]) -> list[Shown]:
    """The cards of several files, each measurement once: one of the host stands on the pages of all of its devices."""
    found: dict[tuple[str, ...], Shown] = {}
    for each in told:
        for card in each["cards"]:
            shown = Shown(each["title"], each["on"], f"{each['lab']}/{each['name']}#{card['id']}", card)
            runs = [run["run"] for version in card["versions"] for run in version["runs"]]
            found.setdefault((each["lab"], card["id"], shown.device, *runs), shown)
    return list(found.values())


def changed(cards: Sequence[Shown], caption: str) -> Table:
    """A line a change beyond the noise, the newest first: when, what, how many times as fast, and why."""
    import pandas as pd

    records = []
    for each in cards:
        for before, now in _steps(each):
            if now.get("word") in ("faster", "slower"):
                first = now["runs"][0]
                was, commit = before["runs"][-1]["commit"][:10], first["commit"][:10]
                records.append({
                    "when": first["started"], "lab": each.title, "measurement": each.name, "device": each.device,
                    "word": now["word"], "ratio": _ratio(now), "how": now["how"], "why": _why(now),
                    "commits": commit if was == commit else f"{was} → {commit}", "of": each.of,
                })  # fmt: skip
    records.sort(key=lambda each: each["when"], reverse=True)
    lines = [
        Row(
            [
                Cell(each["measurement"], small=f"({each['lab']}, {each['device']})"),
                Cell(each["when"]),
                Cell(each["ratio"], f"num {each['word']}", small=f"({each['how']})", of=each["of"]),
                Cell(each["why"], "wrap"),
                Cell(each["commits"]),
            ]
        )
        for each in records
    ]
    heads = [
        Cell("Measurement"), Cell("Since (UTC)"), Cell("Times as fast as before", "num"), Cell("Why", "wrap"), Cell("Commits"),
    ]  # fmt: skip
    notes = [
        f"Ratios with their {CONFIDENCE} interval. 'these runs': of one or two runs on a side, so another may differ by more.",
        "A number opens the card with all samples, before and after.",
    ]
    return Table(caption, heads, lines, pd.DataFrame(records), notes if lines else [NOTHING], "history")


NOTHING = "No measurement changed beyond its noise."


def summary(cards: Sequence[Shown]) -> Table:
    """A line a kind of change: how many versions came of it, and what became of their times."""
    import pandas as pd

    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for each in cards:
        for _, now in _steps(each):
            kinds = list(dict.fromkeys(kind for kind, _ in now["changes"])) or [CODE]
            counts[" and ".join(KINDS[kind] for kind in kinds)][now.get("word", "no time")] += 1
    heads = [
        Cell("What changed"),
        Cell("Versions", "num"),
        *(Cell(word.capitalize(), "num") for word in (*WORDS, "no time")),
    ]
    lines = [
        Row([Cell(kind), Cell(str(of.total()), "num"), *(Cell(str(of[word]), "num") for word in (*WORDS, "no time"))])
        for kind, of in counts.items()
    ]
    frame = pd.DataFrame([{"kind": kind, **of} for kind, of in counts.items()])
    notes = (
        ["A version after another of the same measurement: how its time compares with the one before."]
        if lines
        else [ONCE]
    )
    return Table("Versions of measurements, by what changed", heads, lines, frame, notes, "history")


ONCE = "No measurement was taken by other code or in another environment than now."


def between_runs(cards: Sequence[Shown]) -> Table:
    """A line a lab and device: how far runs of one version lie apart, and the measurement whose runs lie farthest apart."""
    import pandas as pd

    spreads: dict[tuple[str, str], list[tuple[float, Shown]]] = defaultdict(list)
    for each in cards:
        medians = [run["seconds"][0] for run in each.card["versions"][-1]["runs"] if "seconds" in run]
        if len(medians) > 1:
            spreads[each.title, each.device].append((max(medians) / min(medians), each))
    heads = [
        Cell("Lab"), Cell("Device"), Cell("In several runs", "num"), Cell("Half are within", "num"), Cell("Greatest", "num"),
        Cell("Of", "wrap"),
    ]  # fmt: skip
    lines, records = [], []
    for (title, device), found in sorted(spreads.items(), key=lambda each: each[0]):
        most, which = max(found, key=lambda each: each[0])
        middle = median(spread for spread, _ in found)
        records.append({"lab": title, "device": device, "measurements": len(found), "middle": middle, "greatest": most})
        cells = [Cell(title), Cell(device), Cell(show.number(len(found), places=0), "num")]
        cells += [Cell(show.percent(middle - 1), "num"), Cell(show.percent(most - 1), "num", of=which.of)]
        lines.append(Row([*cells, Cell(which.name, "wrap")]))
    notes = ["By how much the longest median of a run is above the shortest, of today's version of each measurement."]
    return Table("Run to run, with nothing changed", heads, lines, pd.DataFrame(records), notes, "history")


def commits(cards: Sequence[Shown]) -> Table:
    """A line a commit, the newest first: what was measured by it, on which devices, and what changed then."""
    import pandas as pd

    known: dict[str, dict[str, Any]] = {}
    for each in cards:
        for at, version in enumerate(each.card["versions"]):
            for number, run in enumerate(version["runs"]):
                if not run["commit"]:
                    continue
                mine = known.setdefault(
                    run["commit"], {"when": run["started"], "runs": set(), "devices": set(), "taken": 0, "changed": 0}
                )
                mine["when"] = min(mine["when"], run["started"])
                mine["runs"].add(run["run"])
                mine["devices"].add(each.device.rpartition(", ")[0])
                mine["taken"] += 1
                mine["changed"] += at > 0 and number == 0 and version.get("word") in ("faster", "slower")
    ordered = sorted(known.items(), key=lambda each: each[1]["when"], reverse=True)
    heads = [
        Cell("Commit"),
        Cell("From (UTC)"),
        *(Cell(head, "num") for head in ("Runs", "Measurements", "Changed")),
        Cell("On", "wrap"),
    ]
    lines = [
        Row(
            [
                Cell(commit[:10]),
                Cell(its["when"]),
                *(
                    Cell(show.number(number, places=0), "num")
                    for number in (len(its["runs"]), its["taken"], its["changed"])
                ),
                Cell("; ".join(sorted(its["devices"])), "wrap"),
            ]
        )
        for commit, its in ordered
    ]
    frame = pd.DataFrame([{"commit": commit, **its} for commit, its in ordered])
    notes = ["Changed: measurements whose time is another beyond the noise since that commit."]
    return Table("Commits that were measured", heads, lines, frame, notes, "history")


def _steps(each: Shown) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Each version of a measurement but the first, after the last before it that has a time."""
    versions = each.card["versions"]
    for at in range(1, len(versions)):
        before = next((one for one in reversed(versions[:at]) if "seconds" in one), versions[at - 1])
        yield before, versions[at]


def _ratio(version: Mapping[str, Any]) -> str:
    return str(version["ratio"]).partition(" times")[0]


def _why(version: Mapping[str, Any]) -> str:
    order = [CODE, DRIVER, MACHINE]
    found = sorted(version["changes"], key=lambda each: order.index(each[0]))
    return "; ".join(f"{KINDS[kind]}: {what}" for kind, what in found)
