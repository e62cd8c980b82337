"""Loop 1: the definition scheduler, and how it works out what fires when."""
