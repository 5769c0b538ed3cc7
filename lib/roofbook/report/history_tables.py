"""Tables of the history page: changes over runs and commits, from the cards of all measurements."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter, itemgetter
from statistics import median
from typing import Any

from ..analysis import format as show
from ..analysis.history import CODE, DRIVER, MACHINE
from ..measure.stats import CONFIDENCE
from .cards_page import KINDS
from .columns import Column, Record, count_column, table, text_column
from .html import Cell, Table

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
    records: list[Record] = []
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

    def measurement(record: Record) -> Cell:
        return Cell(record["measurement"], small=f"({record['lab']}, {record['device']})")

    def ratio(record: Record) -> Cell:
        return Cell(record["ratio"], f"num {record['word']}", small=f"({record['how']})", card_id=record["of"])

    columns: list[Column[Record]] = [
        Column("Measurement", measurement),
        Column("Since (UTC)", itemgetter("when")),
        Column("Times as fast as before", ratio, "num"),
        Column("Why", itemgetter("why"), "wrap"),
        Column("Commits", itemgetter("commits")),
    ]
    notes = [
        f"Ratios with their {CONFIDENCE} interval. 'these runs': of one or two runs on a side, so another may differ by more.",
        "A number opens the card with all samples, before and after.",
    ]
    return table(caption, columns, records, notes if records else [NO_CHANGE], "history", records=records)


NO_CHANGE = "No measurement changed beyond its noise."


def summary(cards: Sequence[LinkedCard]) -> Table:
    """Return a table with a line for each kind of change: how many versions it made, and how their times changed."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for linked in cards:
        for _, current in _steps(linked):
            kinds = list(dict.fromkeys(kind for kind, _ in current["changes"])) or [CODE]
            counts[" and ".join(KINDS[kind] for kind in kinds)][current.get("word", "no time")] += 1
    columns: list[Column[tuple[str, Counter[str]]]] = [
        Column("What changed", lambda row: row[0]),
        Column("Versions", lambda row: str(row[1].total()), "num"),
        *(Column(word.capitalize(), partial(_count_of, word), "num") for word in (*WORDS, "no time")),
    ]
    records = [{"kind": kind, **counted} for kind, counted in counts.items()]
    comparison = "A version after another of the same measurement: how its time compares with the one before."
    notes = [comparison if counts else ONCE]
    return table(
        "Versions of measurements, by what changed", columns, counts.items(), notes, "history", records=records
    )


def _count_of(word: str, row: tuple[str, Counter[str]]) -> str:
    return str(row[1][word])


ONCE = "No measurement was taken by other code or in another environment than now."


@dataclass(frozen=True)
class Spread:
    """The spread between runs of one lab's measurements on a device, each as longest over shortest median."""

    title: str
    device: str
    ratios: Sequence[tuple[float, LinkedCard]]

    @property
    def middle(self) -> float:
        return median(ratio for ratio, _ in self.ratios)

    @property
    def greatest(self) -> tuple[float, LinkedCard]:
        return max(self.ratios, key=itemgetter(0))


def run_spread(cards: Sequence[LinkedCard]) -> Table:
    """Return a table of the spread between runs of one version, with a line for each lab and device."""
    spreads: dict[tuple[str, str], list[tuple[float, LinkedCard]]] = defaultdict(list)
    for linked in cards:
        medians = [run["seconds"][0] for run in linked.card["versions"][-1]["runs"] if "seconds" in run]
        if len(medians) > 1:
            spreads[linked.title, linked.device].append((max(medians) / min(medians), linked))

    def greatest(spread: Spread) -> Cell:
        ratio, card = spread.greatest
        return Cell(show.percent(ratio - 1), "num", card_id=card.link)

    columns: list[Column[Spread]] = [
        text_column("Lab", "lab", attrgetter("title")),
        text_column("Device", "device", attrgetter("device")),
        count_column("In several runs", "measurements", lambda spread: len(spread.ratios)),
        Column(
            "Half are within", lambda spread: show.percent(spread.middle - 1), "num", {"middle": attrgetter("middle")}
        ),
        Column("Greatest", greatest, "num", {"greatest": lambda spread: spread.greatest[0]}),
        Column("Of", lambda spread: spread.greatest[1].name, "wrap"),
    ]
    notes = ["By how much the longest median of a run is above the shortest, of today's version of each measurement."]
    rows = [Spread(title, device, spreads[title, device]) for title, device in sorted(spreads)]
    return table("Run to run, with nothing changed", columns, rows, notes, "history")


def commits(cards: Sequence[LinkedCard]) -> Table:
    """Return a table with a line for each commit, newest first: its measurements, their devices, and the changes since it."""
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
    records: list[Record] = [{"commit": commit, **totals} for commit, totals in by_commit.items()]
    records.sort(key=itemgetter("when"), reverse=True)
    columns: list[Column[Record]] = [
        Column("Commit", lambda record: record["commit"][:10]),
        Column("From (UTC)", itemgetter("when")),
        count_column("Runs", "runs", lambda record: len(record["runs"])),
        count_column("Measurements", "taken", itemgetter("taken")),
        count_column("Changed", "changed", itemgetter("changed")),
        Column("On", lambda record: "; ".join(sorted(record["devices"])), "wrap"),
    ]
    notes = ["Changed: measurements whose time is another beyond the noise since that commit."]
    return table("Commits that were measured", columns, records, notes, "history", records=records)


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
