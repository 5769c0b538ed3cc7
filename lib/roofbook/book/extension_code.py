"""What the code of the site's Sphinx extension is, as one hash: where it changes, every page is read again."""

from pathlib import Path

from ..spec.host_code import hash_of_code

NAMES = (
    "card_links.py", "device_choices.py", "device_switch.py", "lab_pages.py", "notebook_cells.py", "case_markup.py",
    "page_html.py", "sphinx_ext.py", "table_files.py", "terms.py", "noscript.py", "page_weight/*.py",
)  # fmt: skip


def version() -> str:
    """The hash, of what the code does: comments change none."""
    files = [path for name in NAMES for path in sorted(Path(__file__).parent.glob(name))]
    return hash_of_code([(path.name, path.read_bytes()) for path in files])
