"""Small pages: parts of the Sphinx extension that decide which files and rules a reader's browser must load."""
