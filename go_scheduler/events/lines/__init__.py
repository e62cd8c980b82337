"""The lines of the log: of each event that it hears, what it says."""

# Each says what its lines are.
from go_scheduler.events.lines import (  # noqa: F401
    buses,
    definitions,
    instances,
    listeners,
    nodes,
    requests,
    runs,
)
from go_scheduler.events.lines.line import line_of

__all__ = ["line_of"]
