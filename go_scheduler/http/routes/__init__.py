"""The routes, by their paths."""
