"""Explains what happened to a definition at an instant, or will happen, and why."""
