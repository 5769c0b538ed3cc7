"""What rows say: statistics, rooflines, comparisons and verdicts. Plain data, no HTML."""
