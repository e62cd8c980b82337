"""Lines about listeners."""

from __future__ import annotations

from go_scheduler.events.lines.line import (
    ERROR,
    WARNING,
    Line,
    line_of,
)
from go_scheduler.events.listening import (
    EventsDropped,
    ListenerFailed,
)


@line_of.register(ListenerFailed)
def _(event: ListenerFailed) -> Line:
    text = "the listener %s failed when it was told of %s: %r"
    args = event.listener, event.told, event.exception
    return Line(ERROR, text, args, error=event.exception)


@line_of.register(EventsDropped)
def _(event: EventsDropped) -> Line:
    text = "the listener %s is too slow: %d events have been dropped so far"
    return Line(WARNING, text, (event.listener, event.count))
