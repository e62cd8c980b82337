"""Lines about requests over HTTP: what is to be read of who did what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.events.lines.line import INFO, Line, line_of
from go_scheduler.events.request_events import RequestAllowed, RequestRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from go_scheduler.events.request_events import RequestEvent

ANSWERED = "%s from %s: %s %s was answered by %d"
_READS = ("GET", "HEAD", "OPTIONS")


@line_of.register(RequestAllowed)
def _(event: RequestAllowed) -> Line | None:
    # What workers say of runs is told by the events of those.
    if event.method in _READS or event.scopes == ("workers",):
        return None
    return Line(INFO, ANSWERED, (*_who(event), event.status), _ids(event))


@line_of.register(RequestRefused)
def _(event: RequestRefused) -> Line:
    text = "%s from %s: %s %s was refused by %d: %s"
    args = (*_who(event), event.status, event.reason)
    return Line(INFO, text, args, _ids(event))


def _who(event: RequestEvent) -> tuple[object, ...]:
    who = "somebody" if event.subject is None else event.subject
    return who, event.address or "nowhere", event.method, event.path


def _ids(event: RequestEvent) -> Mapping[str, object]:
    return {"subject": event.subject, "address": event.address, "status": event.status}
