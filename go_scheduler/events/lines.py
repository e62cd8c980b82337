"""The lines of the log: what it says of each event that it hears."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import singledispatch
from typing import TYPE_CHECKING

from go_scheduler.events.definition_events import (
    DeclarationOutdated,
    DefinitionLocked,
    DefinitionSetAside,
    DefinitionsMoved,
    InstancesBackfilled,
    InstanceSkipped,
    TriggerFailed,
)
from go_scheduler.events.instance_events import (
    BusAway,
    BusBack,
    ClaimAnswerLost,
    CompletedRunFailed,
    InstanceDropped,
    InstanceGivenBack,
    InstanceLapsed,
    InstanceLocked,
    InstanceLost,
    InstanceReplaced,
    InstanceTakenOver,
    InstanceUnrecorded,
    RequestAllowed,
    RequestRefused,
    ResultDiscarded,
    ResultLost,
    RunDeferred,
    RunFailed,
    RunHung,
    RunLeftBehind,
    RunTimedOut,
    StatusRefused,
    Write,
)
from go_scheduler.events.listening import (
    EventsDropped,
    ListenerFailed,
)
from go_scheduler.events.node_events import (
    ExecutorFailed,
    ExecutorRecovered,
    LoopFailed,
    LoopRecovered,
    NodeStarted,
    NodeStopped,
    NoticeGiven,
    ObjectiveBroken,
    ObjectiveMet,
    QueueUnserved,
)

if TYPE_CHECKING:
    from go_scheduler.events.event import DefinitionEvent, Event, InstanceEvent
    from go_scheduler.events.instance_events import RequestEvent

__all__ = ["line_of"]

DEBUG, INFO = logging.DEBUG, logging.INFO
WARNING, ERROR = logging.WARNING, logging.ERROR


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the log.

    Attributes:
        level: One of the levels of ``logging``.
        message: With a place for each of ``args``.
        args: What goes there.
        ids: Given to the record as attributes, as text.
        error: Written with its traceback, if that is worth its lines.
    """

    level: int
    message: str
    args: tuple[object, ...] = ()
    ids: Mapping[str, object] = field(default_factory=dict)
    error: BaseException | None = None


@singledispatch
def line_of(event: Event) -> Line | None:
    """What the log says of an event; None: nothing."""


def definition_ids(event: DefinitionEvent) -> Mapping[str, object]:
    """The ids of a line about a definition."""
    return {"definition_id": event.definition_id}


def run_ids(event: InstanceEvent) -> Mapping[str, object]:
    """The ids of a line about an instance, or a run of it."""
    return {
        "instance_id": event.instance_id,
        "definition_id": event.definition_id,
        "attempt": event.attempt,
    }


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


@line_of.register(DeclarationOutdated)
def _(event: DeclarationOutdated) -> Line:
    is_one = event.version is not None
    return Line(
        # In a rolling deploy that is as it should be.
        INFO if is_one else WARNING,
        "the set of %s was declared at version %d: what is declared %s changes nothing",
        (event.owner, event.stored, f"at {event.version}" if is_one else "without one"),
    )


@line_of.register(DefinitionLocked)
def _(event: DefinitionLocked) -> Line:
    text = "definition %s: another transaction has locked it, its firing has to wait"
    return Line(WARNING, text, (event.definition_id,), definition_ids(event))


@line_of.register(DefinitionSetAside)
def _(event: DefinitionSetAside) -> Line:
    return Line(
        ERROR,
        "definition %s cannot fire and is left alone for %d s: %r",
        (event.definition_id, event.retry_in.total_seconds(), event.exception),
        definition_ids(event),
        event.exception,
    )


@line_of.register(TriggerFailed)
def _(event: TriggerFailed) -> Line:
    return Line(
        ERROR,
        "definition %s: its trigger failed, it fires again in a minute: %r",
        (event.definition_id, event.exception),
        definition_ids(event),
        event.exception,
    )


@line_of.register(DefinitionsMoved)
def _(event: DefinitionsMoved) -> Line:
    what = "fire at other instants, by the present data of their time zones"
    return Line(INFO, f"%d definitions {what}", (event.count,))


@line_of.register(InstancesBackfilled)
def _(event: InstancesBackfilled) -> Line:
    of = event.name or f"definition {event.definition_id}"
    text = "%s: %d of its fire times from %s to %s are run after all, by hand"
    args = of, event.count, event.first, event.last
    return Line(INFO, text, args, definition_ids(event))


@line_of.register(InstanceSkipped)
def _(event: InstanceSkipped) -> Line:
    return Line(
        # What an overlap skips, or a full queue drops, is what was asked for.
        WARNING if event.late else INFO,
        "%s: not run, %d that were added for %s to %s: %s"
        if event.added
        else "%s: not run, %d of its fire times from %s to %s: %s",
        (
            event.name or f"definition {event.definition_id}",
            event.count,
            event.first,
            event.last,
            event.reason,
        ),
        definition_ids(event),
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


@line_of.register(ListenerFailed)
def _(event: ListenerFailed) -> Line:
    text = "the listener %s failed when it was told of %s: %r"
    args = event.listener, event.told, event.exception
    return Line(ERROR, text, args, error=event.exception)


@line_of.register(EventsDropped)
def _(event: EventsDropped) -> Line:
    text = "the listener %s is too slow: %d events have been dropped so far"
    return Line(WARNING, text, (event.listener, event.count))


@line_of.register(NodeStarted)
def _(event: NodeStarted) -> Line:
    return Line(INFO, "node %s starts", (event.node,), {"node": event.node})


@line_of.register(NodeStopped)
def _(event: NodeStopped) -> Line:
    text = f"node %s has stopped{'' if event.clean else ' and left work behind'}"
    return Line(INFO, text, (event.node,), {"node": event.node})


@line_of.register(LoopFailed)
def _(event: LoopFailed) -> Line:
    return Line(
        WARNING if event.failures == 1 else DEBUG,
        "the %s failed and will try again: %r",
        (event.loop, event.exception),
        {"ticker": event.loop, "failures": event.failures},
        event.exception,
    )


@line_of.register(LoopRecovered)
def _(event: LoopRecovered) -> Line:
    text = "the %s goes on after %d failures"
    return Line(INFO, text, (event.loop, event.failures))


@line_of.register(ExecutorFailed)
def _(event: ExecutorFailed) -> Line:
    text = "the executor takes no more handlers: %r"
    return Line(ERROR, text, (event.exception,))


@line_of.register(ExecutorRecovered)
def _(event: ExecutorRecovered) -> Line:
    return Line(WARNING, "the executor takes handlers again")


@line_of.register(ObjectiveBroken)
def _(event: ObjectiveBroken) -> Line:
    text = "%d of the last minute's %d runs are more than %g s late"
    late = event.objective.total_seconds()
    return Line(WARNING, text, (event.late, event.runs, late), {"node": event.node})


@line_of.register(ObjectiveMet)
def _(event: ObjectiveMet) -> Line:
    text = "runs are at most %g s late again, after %.0f s"
    spans = (event.objective.total_seconds(), event.after.total_seconds())
    return Line(INFO, text, spans, {"node": event.node})


@line_of.register(QueueUnserved)
def _(event: QueueUnserved) -> Line:
    return Line(WARNING, "%s", (event.text,))


@line_of.register(NoticeGiven)
def _(event: NoticeGiven) -> Line:
    ids = {"definition_id": event.definition_id, "instance_id": event.instance_id}
    known = {name: id for name, id in ids.items() if id is not None}
    return Line(WARNING if event.is_warning else INFO, "%s", (event.text,), known)


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


@line_of.register(RunFailed)
def _(event: RunFailed) -> Line:
    if event.retry_in is None:
        what = f"{_on(event.worker)}has failed for good"
        return _run_failed(ERROR, event, what, event.error, runs=event.runs)
    what = f"{_on(event.worker)}has failed and runs again in {event.retry_in}"
    return _run_failed(WARNING, event, what, event.error, runs=event.runs)


@line_of.register(RunDeferred)
def _(event: RunDeferred) -> Line:
    what = f"{_on(event.worker)}asks to be run again in {event.retry_in}"
    # What it raised to say so is no fault: where that was is not worth its lines.
    # Below the last of a group is a rule.
    why = event.error.rstrip(" +-\n").rpartition("\n")[2].lstrip(" |")
    return _run_failed(INFO, event, what, why, runs=event.runs)


@line_of.register(InstanceGivenBack)
def _(event: InstanceGivenBack) -> Line | None:
    if not event.by_handler or event.again:
        return None
    what = "has not begun anything, counts as no run"
    what += f" and is given back for {event.delay}"
    return _run_failed(INFO, event, what, event.reason)


@line_of.register(RunLeftBehind)
def _(event: RunLeftBehind) -> Line:
    what = "was left behind, has failed and is given back"
    return _run_failed(WARNING, event, what, event.error)


@line_of.register(RunHung)
def _(event: RunHung) -> Line:
    text = "instance %s: attempt %d has no result in time, presumed hung"
    return Line(WARNING, text, (event.instance_id, event.attempt), run_ids(event))


@line_of.register(RunTimedOut)
def _(event: RunTimedOut) -> Line:
    what = "it is told to end" if event.ended else "it cannot be ended, presumed hung"
    text = f"instance %s: attempt %d has no result after its timeout, %s: {what}"
    args = event.instance_id, event.attempt, event.timeout
    return Line(WARNING, text, args, run_ids(event))


@line_of.register(CompletedRunFailed)
def _(event: CompletedRunFailed) -> Line:
    return Line(
        ERROR,
        "instance %s: attempt %d is completed, but failed afterwards: %s",
        (event.instance_id, event.attempt, event.error),
        run_ids(event),
    )


@line_of.register(ResultDiscarded)
def _(event: ResultDiscarded) -> Line:
    text = "instance %s: the result of attempt %d is discarded, its claim is lost"
    return Line(WARNING, text, (event.instance_id, event.attempt), run_ids(event))


@line_of.register(ResultLost)
def _(event: ResultLost) -> Line:
    text = "instance %s: its outcome cannot be told"
    return Line(ERROR, text, (event.instance_id,), run_ids(event), event.exception)


def _on(worker: str | None) -> str:
    return "" if worker is None else f"on worker {worker} "


def _run_failed(
    level: int,
    event: InstanceEvent,
    what: str,
    error: str | None,
    *,
    runs: int = 0,
) -> Line:
    if runs and runs != event.attempt:
        # What was given back, or taken over, has been claimed more often than run.
        what = f"(run {runs}) {what}"
    of = event.name or event.definition_id
    args = event.instance_id, of, event.attempt, what, error
    return Line(level, "instance %s of %s: attempt %d %s: %s", args, run_ids(event))


# Each says what its lines are.
