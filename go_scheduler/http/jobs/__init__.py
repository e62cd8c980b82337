"""Jobs that are submitted: what is known of their types, when each is to run."""
