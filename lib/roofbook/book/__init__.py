"""Notebooks, pages and the site: parts that readers execute and browse."""
