"""What makes the site's pages light: the parts of the Sphinx extension that decide what a reader's browser must load."""
