"""What pages take from the store as HTML, made again only where the code or the store changed.

Fragments of written pages lie in book/_generated: verdicts on claims, devices, the ladder of each lab that was executed.
A lab's sections on record, which its notebook shows, lie in _build/on-record.
"""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from html import escape
from pathlib import Path

from . import execute, labs
from .keys import fragments_key, records_key
from .lab import Lab
from .store import Store

ON_RECORD = Path("_build", "on-record")


def on_record(lab: Lab, store: Store, root: Path) -> str:
    """HTML: what the store has of a lab on recorded devices, each to open; as it was drawn last where nothing changed."""
    from .recorded import sections

    kept, mark = root / ON_RECORD / f"{lab.name}.html", _mark(store, lab.name)
    if _is_kept(root, store, lab.name):
        return kept.read_text(encoding="utf-8").removeprefix(mark)
    drawn = sections(lab, store)
    kept.parent.mkdir(parents=True, exist_ok=True)
    partial = kept.with_suffix(f".{os.getpid()}")
    partial.write_text(mark + drawn, encoding="utf-8")
    os.replace(partial, kept)
    return drawn


def draw_records(root: Path) -> None:
    """Draw the sections on record of those labs where the kept ones are not of today, on all cores.

    So no notebook has to wait for its own.
    """
    store = Store(root / "results")
    due = [lab for lab in (*labs.names(), labs.CEILINGS) if not _is_kept(root, store, lab)]
    if due:
        with ProcessPoolExecutor(min(len(due), os.cpu_count() or 1), multiprocessing.get_context("spawn")) as pool:
            for done in [pool.submit(_draw, lab, root) for lab in due]:
                done.result()


def _draw(lab: str, root: Path) -> None:
    on_record(labs.get(lab), Store(root / "results"), root)


def _is_kept(root: Path, store: Store, lab: str) -> bool:
    mark = _mark(store, lab)
    try:
        with (root / ON_RECORD / f"{lab}.html").open(encoding="utf-8") as kept:
            return kept.read(len(mark)) == mark
    except FileNotFoundError:
        return False


def _mark(store: Store, lab: str) -> str:
    return f"<!-- {records_key(store, lab)} -->\n"


def renew(root: Path) -> None:
    """Make the fragments of the checkout `root` that would say something else now."""
    from .claims import judged, tables
    from .experiment import Experiment

    folder, store = root / "book" / "_generated", Store(root / "results")
    folder.mkdir(exist_ok=True)
    made_from, key = folder / "made-from.txt", fragments_key(root)
    due = not made_from.exists() or made_from.read_text() != key
    if due:
        _compare_devices(folder, store)
    for name in labs.names():
        lab = labs.get(name)
        if due and lab.claims:
            verdicts, cells = tables(lab, judged(lab, store))
            opened = f"<details><summary>{escape(cells.caption)}</summary>\n{cells.html}</details>\n"
            _renew(folder / f"{name}-claims.html", verdicts.html + opened)
        target, notebook = folder / f"{name}-ladder.html", root / "experiments" / f"{name}.ipynb"
        page = execute.page_of(root, notebook)
        if page.exists() and (not target.exists() or target.stat().st_mtime < page.stat().st_mtime):
            target.write_text(Experiment(name, execute.parameters_of(root, notebook), root).ladder_chart().html)
    made_from.write_text(key)


def _compare_devices(folder: Path, store: Store) -> None:
    """The fragments of the page that compares devices; none where nothing is on record."""
    from .comparison import SCALES, compared
    from .report.comparison import cases, overview, picker

    made = [each for lab in labs.names() for scale in SCALES for each in compared(labs.get(lab), store, scale)]
    tables = "".join(table.html for table in overview(made))
    for name, text in (("pick", picker(made)), ("overview", tables), ("cells", cases(made))):
        path = folder / f"devices-{name}.html"
        if made:
            _renew(path, text)
        else:
            path.unlink(missing_ok=True)


def _renew(path: Path, text: str) -> None:
    """Write a file that would say something else: a page is made again where one of its fragments is younger."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
