"""The lines of the log: of each event that it hears, what it says."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING

from go_scheduler.events.definition_events import (
    DeclarationOutdated,
    DefinitionLocked,
    DefinitionSetAside,
    DefinitionsMoved,
    InstancesBackfilled,
    InstanceSkipped,
    TimeZonesRenewed,
    TriggerFailed,
)
from go_scheduler.events.instance_events import (
    ClaimAnswerLost,
    CompletedRunFailed,
    InstanceDropped,
    InstanceLapsed,
    InstanceLocked,
    InstanceLost,
    InstanceReplaced,
    InstanceTakenOver,
    InstanceUnrecorded,
    ResultDiscarded,
    ResultLost,
    RunDeferred,
    RunFailed,
    RunHung,
    RunLeftBehind,
    RunTimedOut,
    Write,
)
from go_scheduler.events.line import DEBUG, ERROR, INFO, WARNING, Line
from go_scheduler.events.listening import EventsDropped, ListenerFailed
from go_scheduler.events.node_events import (
    ExecutorFailed,
    ExecutorRecovered,
    LoopFailed,
    LoopRecovered,
    NodeStarted,
    NodeStopped,
    NoticeGiven,
    QueueUnserved,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from go_scheduler.events.event import DefinitionEvent, Event, InstanceEvent

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


@singledispatch
def line_of(event: Event) -> Line | None:
    """What the log says of an event; None: nothing."""


@line_of.register
def _(event: DeclarationOutdated) -> Line:
    is_one = event.version is not None
    return Line(
        # In a rolling deploy that is as it should be.
        INFO if is_one else WARNING,
        "the set of %s was declared at version %d: what is declared %s changes nothing",
        (event.owner, event.stored, f"at {event.version}" if is_one else "without one"),
    )


@line_of.register
def _(event: DefinitionLocked) -> Line:
    text = "definition %s: another transaction has locked it, its firing has to wait"
    return Line(WARNING, text, (event.definition_id,), _definition(event))


@line_of.register
def _(event: DefinitionSetAside) -> Line:
    return Line(
        ERROR,
        "definition %s cannot fire and is left alone for %d s: %r",
        (event.definition_id, event.retry_in.total_seconds(), event.exception),
        _definition(event),
        event.exception,
    )


@line_of.register
def _(event: TriggerFailed) -> Line:
    return Line(
        ERROR,
        "definition %s: its trigger failed, it fires again in a minute: %r",
        (event.definition_id, event.exception),
        _definition(event),
        event.exception,
    )


@line_of.register
def _(event: TimeZonesRenewed) -> Line:
    text = "new time zone data: %s; what fires by them is gone over"
    return Line(INFO, text, (", ".join(event.zones),))


@line_of.register
def _(event: DefinitionsMoved) -> Line:
    what = "fire at other instants, by the present data of their time zones"
    return Line(INFO, f"%d definitions {what}", (event.count,))


@line_of.register
def _(event: InstancesBackfilled) -> Line:
    of = event.name or f"definition {event.definition_id}"
    text = "%s: %d of its fire times from %s to %s are run after all, by hand"
    args = of, event.count, event.first, event.last
    return Line(INFO, text, args, _definition(event))


@line_of.register
def _(event: InstanceSkipped) -> Line:
    return Line(
        # What an overlap skips is what was asked for.
        WARNING if event.late else INFO,
        "%s: not run, %d of its fire times from %s to %s: %s",
        (
            event.name or f"definition {event.definition_id}",
            event.count,
            event.first,
            event.last,
            event.reason,
        ),
        _definition(event),
    )


@line_of.register
def _(event: InstanceDropped) -> Line:
    what = event.name or event.definition_id
    text = "instance %s of %s is not run: %s"
    return Line(WARNING, text, (event.instance_id, what, event.reason), _run(event))


@line_of.register
def _(event: InstanceTakenOver) -> Line:
    return Line(
        WARNING,
        "instance %s of %s: its last run came to no end, it runs again",
        (event.instance_id, event.name or event.definition_id),
        _run(event),
    )


@line_of.register
def _(event: RunFailed) -> Line:
    if event.retry_in is None:
        return _run_failed(ERROR, event, "has failed for good", event.error)
    what = f"has failed and runs again in {event.retry_in}"
    return _run_failed(WARNING, event, what, event.error)


@line_of.register
def _(event: RunDeferred) -> Line:
    what = f"asks to be run again in {event.retry_in}"
    # What it raised to say so is no fault: where that was is not worth its lines.
    # Below the last of a group is a rule.
    why = event.error.rstrip(" +-\n").rpartition("\n")[2].lstrip(" |")
    return _run_failed(INFO, event, what, why)


@line_of.register
def _(event: RunLeftBehind) -> Line:
    what = "was left behind, has failed and is given back"
    return _run_failed(WARNING, event, what, event.error)


@line_of.register
def _(event: RunHung) -> Line:
    text = "instance %s: attempt %d has no result in time, presumed hung"
    return Line(WARNING, text, (event.instance_id, event.attempt), _run(event))


@line_of.register
def _(event: RunTimedOut) -> Line:
    what = "it is told to end" if event.ended else "it cannot be ended, presumed hung"
    text = f"instance %s: attempt %d has no result after its timeout, %s: {what}"
    args = event.instance_id, event.attempt, event.timeout
    return Line(WARNING, text, args, _run(event))


@line_of.register
def _(event: InstanceLapsed) -> Line:
    text = "instance %s: attempt %d is not called, too little is left of its claim"
    return Line(WARNING, text, (event.instance_id, event.attempt), _run(event))


@line_of.register
def _(event: InstanceLost) -> Line:
    text = "instance %s: attempt %d has lost its claim"
    return Line(WARNING, text, (event.instance_id, event.attempt), _run(event))


@line_of.register
def _(event: InstanceReplaced) -> Line:
    text = "instance %s of %s is to stop: a later one takes its place"
    args = event.instance_id, event.name or event.definition_id
    return Line(INFO, text, args, _run(event))


@line_of.register
def _(event: CompletedRunFailed) -> Line:
    return Line(
        ERROR,
        "instance %s: attempt %d is completed, but failed afterwards: %s",
        (event.instance_id, event.attempt, event.error),
        _run(event),
    )


@line_of.register
def _(event: ResultDiscarded) -> Line:
    text = "instance %s: the result of attempt %d is discarded, its claim is lost"
    return Line(WARNING, text, (event.instance_id, event.attempt), _run(event))


@line_of.register
def _(event: ResultLost) -> Line:
    text = "instance %s: its outcome cannot be told"
    return Line(ERROR, text, (event.instance_id,), _run(event), event.exception)


@line_of.register
def _(event: InstanceLocked) -> Line:
    text = f"instance %s: {_LOCKED[event.write]}"
    return Line(WARNING, text, (event.instance_id,), _run(event))


@line_of.register
def _(event: InstanceUnrecorded) -> Line:
    if event.write is Write.START:
        text = "instance %s: its start cannot be recorded, it is tried again: %r"
        args: tuple[object, ...] = (event.instance_id, event.exception)
    else:
        text = f"instance %s: {_NOT_WRITTEN[event.write]}, next try in %g s: %r"
        args = (event.instance_id, event.retry_in.total_seconds(), event.exception)
    return Line(ERROR, text, args, _run(event), event.exception)


@line_of.register
def _(event: ClaimAnswerLost) -> Line:
    text = "the answer to a claim was lost: %d instances are given back"
    return Line(WARNING, text, (event.count,), {"node": event.node})


@line_of.register
def _(event: NodeStarted) -> Line:
    return Line(INFO, "node %s starts", (event.node,), {"node": event.node})


@line_of.register
def _(event: NodeStopped) -> Line:
    text = f"node %s has stopped{'' if event.clean else ' and left work behind'}"
    return Line(INFO, text, (event.node,), {"node": event.node})


@line_of.register
def _(event: LoopFailed) -> Line:
    return Line(
        WARNING if event.failures == 1 else DEBUG,
        "the %s failed and will try again: %r",
        (event.loop, event.exception),
        {"ticker": event.loop, "failures": event.failures},
        event.exception,
    )


@line_of.register
def _(event: LoopRecovered) -> Line:
    text = "the %s goes on after %d failures"
    return Line(INFO, text, (event.loop, event.failures))


@line_of.register
def _(event: ExecutorFailed) -> Line:
    text = "the executor takes no more handlers: %r"
    return Line(ERROR, text, (event.exception,))


@line_of.register
def _(event: ExecutorRecovered) -> Line:
    return Line(WARNING, "the executor takes handlers again")


@line_of.register
def _(event: QueueUnserved) -> Line:
    return Line(WARNING, "%s", (event.text,))


@line_of.register
def _(event: NoticeGiven) -> Line:
    ids = {"definition_id": event.definition_id, "instance_id": event.instance_id}
    known = {name: id for name, id in ids.items() if id is not None}
    return Line(WARNING if event.is_warning else INFO, "%s", (event.text,), known)


@line_of.register
def _(event: ListenerFailed) -> Line:
    text = "the listener %s failed when it was told of %s: %r"
    args = event.listener, event.told, event.exception
    return Line(ERROR, text, args, error=event.exception)


@line_of.register
def _(event: EventsDropped) -> Line:
    text = "the listener %s is too slow: %d events have been dropped so far"
    return Line(WARNING, text, (event.listener, event.count))


def _run_failed(level: int, event: InstanceEvent, what: str, error: str | None) -> Line:
    of = event.name or event.definition_id
    args = event.instance_id, of, event.attempt, what, error
    return Line(level, "instance %s of %s: attempt %d %s: %s", args, _run(event))


def _definition(event: DefinitionEvent) -> Mapping[str, object]:
    return {"definition_id": event.definition_id}


def _run(event: InstanceEvent) -> Mapping[str, object]:
    return {
        "instance_id": event.instance_id,
        "definition_id": event.definition_id,
        "attempt": event.attempt,
    }
