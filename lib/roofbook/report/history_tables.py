"""Tables of the history page: changes over runs and commits, from the cards of all measurements."""

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
class LinkedCard:
    """A card and the page that it is on: the lab's title, the device in words, and the target of a link to it."""

    title: str
    on: str
    link: str
    card: Mapping[str, Any]

    @property
    def name(self) -> str:
        return f"{self.card['variant']} on {self.card['case']}"

    @property
    def device(self) -> str:
        """Device of the rows: that of the page, or its host."""
        return str(dict(self.card["facts"])["Device"])


def read_cards(files: Iterable[Mapping[str, Any]]) -> list[LinkedCard]:
    """Return the cards of several files, each measurement once: those of a host are on the pages of all of its devices."""
    linked_cards: dict[tuple[str, ...], LinkedCard] = {}
    for file in files:
        for card in file["cards"]:
            linked = LinkedCard(file["title"], file["on"], f"{file['lab']}/{file['name']}#{card['id']}", card)
            runs = [run["run"] for version in card["versions"] for run in version["runs"]]
            linked_cards.setdefault((file["lab"], card["id"], linked.device, *runs), linked)
    return list(linked_cards.values())


def changes(cards: Sequence[LinkedCard], caption: str) -> Table:
    """Return a table with a line for each change beyond the noise, newest first: date, measurement, ratio and reason."""
    import pandas as pd

    records = []
    for linked in cards:
        for previous, current in _steps(linked):
            if current.get("word") in ("faster", "slower"):
                first = current["runs"][0]
                previous_commit, commit = previous["runs"][-1]["commit"][:10], first["commit"][:10]
                records.append({
                    "when": first["started"], "lab": linked.title, "measurement": linked.name, "device": linked.device,
                    "word": current["word"], "ratio": _ratio(current), "how": current["how"], "why": _why(current),
                    "commits": commit if previous_commit == commit else f"{previous_commit} → {commit}", "of": linked.link,
                })  # fmt: skip
    records.sort(key=lambda record: record["when"], reverse=True)
    lines = [
        Row(
            [
                Cell(record["measurement"], small=f"({record['lab']}, {record['device']})"),
                Cell(record["when"]),
                Cell(record["ratio"], f"num {record['word']}", small=f"({record['how']})", card_id=record["of"]),
                Cell(record["why"], "wrap"),
                Cell(record["commits"]),
            ]
        )
        for record in records
    ]
    heads = [
        Cell("Measurement"), Cell("Since (UTC)"), Cell("Times as fast as before", "num"), Cell("Why", "wrap"), Cell("Commits"),
    ]  # fmt: skip
    notes = [
        f"Ratios with their {CONFIDENCE} interval. 'these runs': of one or two runs on a side, so another may differ by more.",
        "A number opens the card with all samples, before and after.",
    ]
    return Table(caption, heads, lines, pd.DataFrame(records), notes if lines else [NO_CHANGE], "history")


NO_CHANGE = "No measurement changed beyond its noise."


def summary(cards: Sequence[LinkedCard]) -> Table:
    """Return a table with a line for each kind of change: how many versions it made, and how their times changed."""
    import pandas as pd

    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for linked in cards:
        for _, current in _steps(linked):
            kinds = list(dict.fromkeys(kind for kind, _ in current["changes"])) or [CODE]
            counts[" and ".join(KINDS[kind] for kind in kinds)][current.get("word", "no time")] += 1
    heads = [
        Cell("What changed"),
        Cell("Versions", "num"),
        *(Cell(word.capitalize(), "num") for word in (*WORDS, "no time")),
    ]
    lines = [
        Row(
            [
                Cell(kind),
                Cell(str(counted.total()), "num"),
                *(Cell(str(counted[word]), "num") for word in (*WORDS, "no time")),
            ]
        )
        for kind, counted in counts.items()
    ]
    frame = pd.DataFrame([{"kind": kind, **counted} for kind, counted in counts.items()])
    notes = (
        ["A version after another of the same measurement: how its time compares with the one before."]
        if lines
        else [ONCE]
    )
    return Table("Versions of measurements, by what changed", heads, lines, frame, notes, "history")


ONCE = "No measurement was taken by other code or in another environment than now."


def run_spread(cards: Sequence[LinkedCard]) -> Table:
    """Return a table of the spread between runs of one version, with a line for each lab and device."""
    import pandas as pd

    spreads: dict[tuple[str, str], list[tuple[float, LinkedCard]]] = defaultdict(list)
    for linked in cards:
        medians = [run["seconds"][0] for run in linked.card["versions"][-1]["runs"] if "seconds" in run]
        if len(medians) > 1:
            spreads[linked.title, linked.device].append((max(medians) / min(medians), linked))
    heads = [
        Cell("Lab"), Cell("Device"), Cell("In several runs", "num"), Cell("Half are within", "num"), Cell("Greatest", "num"),
        Cell("Of", "wrap"),
    ]  # fmt: skip
    lines, records = [], []
    for (title, device), ratios_cards in sorted(spreads.items(), key=lambda group: group[0]):
        greatest, widest = max(ratios_cards, key=lambda ratio_card: ratio_card[0])
        middle = median(spread for spread, _ in ratios_cards)
        records.append(
            {"lab": title, "device": device, "measurements": len(ratios_cards), "middle": middle, "greatest": greatest}
        )
        cells = [Cell(title), Cell(device), Cell(show.number(len(ratios_cards), places=0), "num")]
        cells += [Cell(show.percent(middle - 1), "num"), Cell(show.percent(greatest - 1), "num", card_id=widest.link)]
        lines.append(Row([*cells, Cell(widest.name, "wrap")]))
    notes = ["By how much the longest median of a run is above the shortest, of today's version of each measurement."]
    return Table("Run to run, with nothing changed", heads, lines, pd.DataFrame(records), notes, "history")


def commits(cards: Sequence[LinkedCard]) -> Table:
    """Return a table with a line for each commit, newest first: its measurements, their devices, and the changes since it."""
    import pandas as pd

    by_commit: dict[str, dict[str, Any]] = {}
    for linked in cards:
        for index, version in enumerate(linked.card["versions"]):
            for number, run in enumerate(version["runs"]):
                if not run["commit"]:
                    continue
                totals = by_commit.setdefault(
                    run["commit"], {"when": run["started"], "runs": set(), "devices": set(), "taken": 0, "changed": 0}
                )
                totals["when"] = min(totals["when"], run["started"])
                totals["runs"].add(run["run"])
                totals["devices"].add(linked.device.rpartition(", ")[0])
                totals["taken"] += 1
                totals["changed"] += index > 0 and number == 0 and version.get("word") in ("faster", "slower")
    ordered = sorted(by_commit.items(), key=lambda commit_totals: commit_totals[1]["when"], reverse=True)
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
                Cell(totals["when"]),
                *(
                    Cell(show.number(number, places=0), "num")
                    for number in (len(totals["runs"]), totals["taken"], totals["changed"])
                ),
                Cell("; ".join(sorted(totals["devices"])), "wrap"),
            ]
        )
        for commit, totals in ordered
    ]
    frame = pd.DataFrame([{"commit": commit, **totals} for commit, totals in ordered])
    notes = ["Changed: measurements whose time is another beyond the noise since that commit."]
    return Table("Commits that were measured", heads, lines, frame, notes, "history")


def _steps(linked: LinkedCard) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield each version of a measurement but the first, after the last version before it that has a time."""
    versions = linked.card["versions"]
    for index in range(1, len(versions)):
        previous = next(
            (version for version in reversed(versions[:index]) if "seconds" in version), versions[index - 1]
        )
        yield previous, versions[index]


def _ratio(version: Mapping[str, Any]) -> str:
    return str(version["ratio"]).partition(" times")[0]


def _why(version: Mapping[str, Any]) -> str:
    order = [CODE, DRIVER, MACHINE]
    changes = sorted(version["changes"], key=lambda change: order.index(change[0]))
    return "; ".join(f"{KINDS[kind]}: {text}" for kind, text in changes)
