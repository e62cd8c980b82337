"""What nobody can do without: bare statements, bare threads, a bare heap."""
