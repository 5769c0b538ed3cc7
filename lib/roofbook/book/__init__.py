"""Notebooks, pages and the site: what readers execute and browse."""
