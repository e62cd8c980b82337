"""Who may see and change what on pages, and what browsers are told."""
