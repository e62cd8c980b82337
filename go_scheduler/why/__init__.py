"""Why: what happened to a definition at an instant, or will, and what decided it."""
