"""Lines about message buses, and what workers say over them."""

from __future__ import annotations

from go_scheduler.events.bus_events import BusAway, BusBack, StatusRefused
from go_scheduler.events.lines.line import INFO, WARNING, Line, line_of


@line_of.register(BusAway)
def _(event: BusAway) -> Line:
    return Line(WARNING, "the bus cannot be reached: what is to run over it waits")


@line_of.register(BusBack)
def _(event: BusBack) -> Line:
    text = "the bus answers again, after %.0f s"
    return Line(INFO, text, (event.away.total_seconds(),))


@line_of.register(StatusRefused)
def _(event: StatusRefused) -> Line:
    if event.instance_id is None:
        return Line(WARNING, "a status is not recorded: %s", (event.reason,))
    text = "a status of worker %s of instance %s, attempt %d, is not recorded: %s"
    args = event.worker, event.instance_id, event.attempt, event.reason
    ids = {"instance_id": event.instance_id, "attempt": event.attempt}
    return Line(WARNING, text, args, {**ids, "worker": event.worker})
