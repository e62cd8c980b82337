"""How long a test waits for what comes at once, unless something has failed."""

FAILED_AFTER = 300
"""Seconds. A busy machine may stop a thread for a minute; only a failing test waits."""
