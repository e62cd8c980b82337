"""What happened, told once."""
