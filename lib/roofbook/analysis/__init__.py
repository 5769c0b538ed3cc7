"""What rows say: readings, rooflines, comparisons and verdicts. Plain data, no HTML."""
