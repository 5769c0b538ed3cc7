"""The parts of a lab: cases, variants, kernel text with its dialect, exercises; and how a lab is found by name."""
