"""Conclusions from rows: readings, rooflines, comparisons and verdicts. Plain data, no HTML."""
