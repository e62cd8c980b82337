"""What the package is measured by, beside floors and others: see ``__main__``."""
