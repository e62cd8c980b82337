"""A history of the schema for tests: that of the package, and two steps more."""
