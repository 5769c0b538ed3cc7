"""Part of the page on claims: published times that ours are slower than, or differ from more than twofold, with the reasons."""

from collections.abc import Sequence

from .. import report
from ..analysis.published_figures import PublishedFigures
from ..analysis.recorded import RecordedData
from ..escaping import escape
from ..report.published_table import Unlike
from ..store.parquet import Store
from ..store.published_results import figures, labs, results_of


def unlike_published(records: Sequence[RecordedData], store: Store) -> str:
    """Return a fold for each lab with such times as HTML; '' without any. records: of one device. store: with their reports."""
    folds = []
    for data in records:
        results = results_of(data.lab.name, store.root)
        if data.lab.name not in labs(results):
            continue
        compared = PublishedFigures.of(data, figures(data.lab.name, results))
        unlike = report.unlike_published(compared, data.rows)
        if unlike.table.rows:
            link = f'<p><a href="labs/{escape(data.lab.name)}/published.html">All published figures of this lab</a></p>'
            summary = escape(f"{data.lab.title}: {_counted(unlike)}, on {data.store_device}")
            folds.append(f"<details><summary>{summary}</summary>\n{unlike.table.html}{link}</details>\n")
    return f'<div class="unlike-published">\n{"".join(folds)}</div>\n' if folds else ""


def _counted(unlike: Unlike) -> str:
    """Return in words how many times differ, and how.

    >>> from ..report.html import Table
    >>> _counted(Unlike(Table("", (), ()), slower=2, faster=5, ratio_count=9))
    'of 9 times 2 are slower than published, and 5 more than twice as fast'
    """
    faster = f"{unlike.faster} more than twice as fast"
    return f"of {unlike.ratio_count} times {unlike.slower} are slower than published, and {faster}"
