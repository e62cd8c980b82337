"""What the loops have in common: who calls them, how fast, and what they put aside."""
