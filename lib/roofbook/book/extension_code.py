"""Hash of the code of the site's Sphinx extension: if it changes, every page is read again."""

from pathlib import Path

from ..spec.host_code import hash_of_code

NAMES = (
    "card_links.py", "case_markup.py", "device_choices.py", "device_pages.py", "lab_pages.py", "notebook_cells.py",
    "page_html.py", "slide_files.py", "sphinx_ext.py", "terms.py", "page_weight/*.py",
)  # fmt: skip


def version() -> str:
    """Return the hash. Comments do not change it."""
    files = [path for name in NAMES for path in sorted(Path(__file__).parent.glob(name))]
    return hash_of_code([(path.name, path.read_bytes()) for path in files])
