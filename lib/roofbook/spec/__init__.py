"""What a lab is made of: problems, cases, variants, kernel text with its dialect, and how a lab is found by name."""
