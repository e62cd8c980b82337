"""Lines about what happens to instances, but for their runs."""

from __future__ import annotations

from go_scheduler.events.instance_events import (
    ClaimAnswerLost,
    InstanceDropped,
    InstanceLapsed,
    InstanceLocked,
    InstanceLost,
    InstanceReplaced,
    InstanceTakenOver,
    InstanceUnrecorded,
    Write,
)
from go_scheduler.events.lines.line import (
    ERROR,
    INFO,
    WARNING,
    Line,
    line_of,
    run_ids,
)

_EVERY_SECOND = "another transaction has locked it; it is tried again every second"
_LOCKED = {
    Write.START: "another transaction has locked it, its start has to wait",
    Write.RENEWAL: f"its claim is not renewed yet, {_EVERY_SECOND}",
    Write.END: f"its end is not recorded yet, {_EVERY_SECOND}",
}
_NOT_WRITTEN = {
    Write.RENEWAL: "its claim cannot be renewed",
    Write.END: "its end cannot be recorded",
}


@line_of.register(InstanceDropped)
def _(event: InstanceDropped) -> Line:
    what = event.name or event.definition_id
    text = "instance %s of %s is not run: %s"
    return Line(WARNING, text, (event.instance_id, what, event.reason), run_ids(event))


@line_of.register(InstanceTakenOver)
def _(event: InstanceTakenOver) -> Line:
    return Line(
        WARNING,
        "instance %s of %s: its last run came to no end, it runs again",
        (event.instance_id, event.name or event.definition_id),
        run_ids(event),
    )


@line_of.register(InstanceLapsed)
def _(event: InstanceLapsed) -> Line:
    text = "instance %s: attempt %d is not called, too little is left of its claim"
    return Line(WARNING, text, (event.instance_id, event.attempt), run_ids(event))


@line_of.register(InstanceLost)
def _(event: InstanceLost) -> Line:
    text = "instance %s: attempt %d has lost its claim"
    return Line(WARNING, text, (event.instance_id, event.attempt), run_ids(event))


@line_of.register(InstanceReplaced)
def _(event: InstanceReplaced) -> Line:
    text = "instance %s of %s is to stop: a later one takes its place"
    args = event.instance_id, event.name or event.definition_id
    return Line(INFO, text, args, run_ids(event))


@line_of.register(InstanceLocked)
def _(event: InstanceLocked) -> Line:
    text = f"instance %s: {_LOCKED[event.write]}"
    return Line(WARNING, text, (event.instance_id,), run_ids(event))


@line_of.register(InstanceUnrecorded)
def _(event: InstanceUnrecorded) -> Line:
    if event.write is Write.START:
        text = "instance %s: its start cannot be recorded, it is tried again: %r"
        args: tuple[object, ...] = (event.instance_id, event.exception)
    else:
        text = f"instance %s: {_NOT_WRITTEN[event.write]}, next try in %g s: %r"
        args = (event.instance_id, event.retry_in.total_seconds(), event.exception)
    return Line(ERROR, text, args, run_ids(event), event.exception)


@line_of.register(ClaimAnswerLost)
def _(event: ClaimAnswerLost) -> Line:
    text = "the answer to a claim was lost: %d instances are given back"
    return Line(WARNING, text, (event.count,), {"node": event.node})
