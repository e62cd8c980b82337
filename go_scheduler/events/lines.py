"""The lines of the log: what it says of each event that it hears."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from go_scheduler.events import (
    definition_events,
    instance_events,
    listening,
    node_events,
)
from go_scheduler.events.instance_events import Write

if TYPE_CHECKING:
    from go_scheduler.events.event import Event

DEBUG, INFO = logging.DEBUG, logging.INFO
WARNING, ERROR = logging.WARNING, logging.ERROR


_OF_EVENT: Mapping[str, object] = {}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the log.

    Attributes:
        level: One of the levels of ``logging``.
        message: With places for ``values``, such as ``%(node)s``.
        values: By their names. The fields of the event are always among them,
            durations in seconds.
        ids: Attributes of the record; by default the ids that the event has.
        error: Written with its traceback, if that is worth its lines.
    """

    level: int
    message: str
    values: Mapping[str, object] = field(default_factory=dict)
    ids: Mapping[str, object] = field(default_factory=lambda: _OF_EVENT)
    error: BaseException | None = None


def line_of(event: Event) -> Line | None:
    """What the log says of an event; None: nothing."""
    line = _LINES.get(type(event))
    if callable(line):
        line = line(event)
    if line is None:
        return None
    given = {each.name: getattr(event, each.name) for each in fields(event)}
    ids = {name: given[name] for name in _IDS if given.get(name) is not None}
    values = {
        name: value.total_seconds() if isinstance(value, timedelta) else value
        for name, value in given.items()
    }
    values["of"] = given.get("name") or given.get("definition_id")
    values["what"] = given.get("name") or f"definition {given.get('definition_id')}"
    return replace(
        line,
        values={**values, **line.values},
        ids=ids if line.ids is _OF_EVENT else line.ids,
        # The traceback of a failed executor does not help: it is not our code.
        error=None
        if isinstance(event, node_events.ExecutorFailed)
        else given.get("exception"),
    )


_IDS = ("definition_id", "instance_id", "attempt", "node")
_ATTEMPT = "instance %(instance_id)s: attempt %(attempt)d"
_INSTANCE = "instance %(instance_id)s of %(of)s"
_RUN = f"{_INSTANCE}: attempt %(attempt)d %(run)s: %(error)s"
_LOCKED = "another transaction has locked it"
_EVERY_SECOND = f"{_LOCKED}; it is tried again every second"


def _declaration_outdated(event: definition_events.DeclarationOutdated) -> Line:
    is_one = event.version is not None
    return Line(
        # With versions this is normal in a rolling deploy.
        INFO if is_one else WARNING,
        "the set of %(owner)s was declared at version %(stored)d: what is declared"
        f" {'at %(version)d' if is_one else 'without one'} changes nothing",
    )


def _skipped(event: definition_events.InstanceSkipped) -> Line:
    times = "that were added for" if event.added else "of its fire times from"
    return Line(
        # Skipping by an overlap or a full queue is what the user asked for.
        WARNING if event.late else INFO,
        f"%(what)s: not run, %(count)d {times} %(first)s to %(last)s: %(reason)s",
    )


def _status_refused(event: instance_events.StatusRefused) -> Line:
    if event.instance_id is None:
        return Line(WARNING, "a status is not recorded: %(reason)s", ids={})
    ids = {name: getattr(event, name) for name in ("instance_id", "attempt", "worker")}
    return Line(
        WARNING,
        "a status of worker %(worker)s of instance %(instance_id)s, attempt"
        " %(attempt)d, is not recorded: %(reason)s",
        ids=ids,
    )


def _instance_locked(event: instance_events.InstanceLocked) -> Line:
    waits = {
        Write.START: f"{_LOCKED}, its start has to wait",
        Write.RENEWAL: f"its claim is not renewed yet, {_EVERY_SECOND}",
        Write.END: f"its end is not recorded yet, {_EVERY_SECOND}",
    }
    return Line(WARNING, f"instance %(instance_id)s: {waits[event.write]}")


def _instance_unrecorded(event: instance_events.InstanceUnrecorded) -> Line:
    fails = {
        Write.START: "its start cannot be recorded, it is tried again",
        Write.RENEWAL: "its claim cannot be renewed, next try in %(retry_in)g s",
        Write.END: "its end cannot be recorded, next try in %(retry_in)g s",
    }
    message = f"instance %(instance_id)s: {fails[event.write]}: %(exception)r"
    return Line(ERROR, message)


def _run_timed_out(event: instance_events.RunTimedOut) -> Line:
    what = "it is told to end" if event.ended else "it cannot be ended, presumed hung"
    message = f"{_ATTEMPT} has no result after its timeout, %(allowed)s: {what}"
    return Line(WARNING, message, {"allowed": event.timeout})


def _run_failed(event: instance_events.RunFailed) -> Line:
    if event.retry_in is None:
        return Line(ERROR, _RUN, {"run": _of_run(event, "has failed for good")})
    what = f"has failed and runs again in {event.retry_in}"
    return Line(WARNING, _RUN, {"run": _of_run(event, what)})


def _run_deferred(event: instance_events.RunDeferred) -> Line:
    what = f"asks to be run again in {event.retry_in}"
    # A RetryAfter is no failure, so its traceback is left out. In an exception group
    # the last line is followed by a rule.
    why = event.error.rstrip(" +-\n").rpartition("\n")[2].lstrip(" |")
    return Line(INFO, _RUN, {"run": _of_run(event, what), "error": why})


def _of_run(
    event: instance_events.RunFailed | instance_events.RunDeferred, what: str
) -> str:
    """How a run ended, with its number and its worker."""
    on = "" if event.worker is None else f"on worker {event.worker} "
    # After a give-back or a takeover the attempt is higher than the number of runs.
    number = f"(run {event.runs}) " if event.runs not in (0, event.attempt) else ""
    return f"{number}{on}{what}"


def _given_back(event: instance_events.InstanceGivenBack) -> Line | None:
    if not event.by_handler or event.again:
        return None
    what = "has not begun anything, counts as no run and is given back for"
    return Line(INFO, _RUN, {"run": f"{what} {event.delay}", "error": event.reason})


def _loop_failed(event: node_events.LoopFailed) -> Line:
    return Line(
        WARNING if event.failures == 1 else DEBUG,
        "the %(loop)s failed and will try again: %(exception)r",
        ids={"ticker": event.loop, "failures": event.failures},
    )


def _node_stopped(event: node_events.NodeStopped) -> Line:
    left = "" if event.clean else " and left work behind"
    return Line(INFO, f"node %(node)s has stopped{left}")


def _notice_given(event: node_events.NoticeGiven) -> Line:
    return Line(WARNING if event.is_warning else INFO, "%(text)s")


_REQUEST = "%(who)s from %(where)s: %(method)s %(path)s was"
ANSWERED = f"{_REQUEST} answered by %(status)d"
_READS = ("GET", "HEAD", "OPTIONS")


def _request_allowed(event: instance_events.RequestAllowed) -> Line | None:
    # Requests of workers are told by the events of their runs.
    if event.method in _READS or event.scopes == ("workers",):
        return None
    return _request(event, ANSWERED)


def _request(event: instance_events.RequestEvent, message: str) -> Line:
    ids = {name: getattr(event, name) for name in ("subject", "address", "status")}
    who = "somebody" if event.subject is None else event.subject
    return Line(INFO, message, {"who": who, "where": event.address or "nowhere"}, ids)


_Said: TypeAlias = Line | Callable[[Any], Line | None]
_LINES: Mapping[type[Event], _Said] = {
    definition_events.DeclarationOutdated: _declaration_outdated,
    definition_events.DefinitionLocked: Line(
        WARNING, f"definition %(definition_id)s: {_LOCKED}, its firing has to wait"
    ),
    definition_events.DefinitionSetAside: Line(
        ERROR,
        "definition %(definition_id)s cannot fire and is left alone for"
        " %(retry_in)d s: %(exception)r",
    ),
    definition_events.DefinitionsMoved: Line(
        INFO,
        "%(count)d definitions fire at other instants, by the present data of their"
        " time zones",
    ),
    definition_events.InstanceSkipped: _skipped,
    definition_events.InstancesBackfilled: Line(
        INFO,
        "%(what)s: %(count)d of its fire times from %(first)s to %(last)s are run after"
        " all, by hand",
    ),
    definition_events.TriggerFailed: Line(
        ERROR,
        "definition %(definition_id)s: its trigger failed, it fires again in a minute:"
        " %(exception)r",
    ),
    instance_events.ClaimAnswerLost: Line(
        WARNING, "the answer to a claim was lost: %(count)d instances are given back"
    ),
    instance_events.CompletedRunFailed: Line(
        ERROR, f"{_ATTEMPT} is completed, but failed afterwards: %(error)s"
    ),
    instance_events.InstanceDropped: Line(
        WARNING, f"{_INSTANCE} is not run: %(reason)s"
    ),
    instance_events.InstanceGivenBack: _given_back,
    instance_events.InstanceLapsed: Line(
        WARNING, f"{_ATTEMPT} is not called, too little is left of its claim"
    ),
    instance_events.InstanceLocked: _instance_locked,
    instance_events.InstanceLost: Line(WARNING, f"{_ATTEMPT} has lost its claim"),
    instance_events.InstanceReplaced: Line(
        INFO, f"{_INSTANCE} is to stop: a later one takes its place"
    ),
    instance_events.InstanceTakenOver: Line(
        WARNING, f"{_INSTANCE}: its last run came to no end, it runs again"
    ),
    instance_events.InstanceUnrecorded: _instance_unrecorded,
    instance_events.ResultDiscarded: Line(
        WARNING,
        "instance %(instance_id)s: the result of attempt %(attempt)d is discarded, its"
        " claim is lost",
    ),
    instance_events.ResultLost: Line(
        ERROR, "instance %(instance_id)s: its outcome cannot be told"
    ),
    instance_events.RunDeferred: _run_deferred,
    instance_events.RunFailed: _run_failed,
    instance_events.RunHung: Line(
        WARNING, f"{_ATTEMPT} has no result in time, presumed hung"
    ),
    instance_events.RunLeftBehind: Line(
        WARNING, _RUN, {"run": "was left behind, has failed and is given back"}
    ),
    instance_events.RunTimedOut: _run_timed_out,
    instance_events.BusAway: Line(
        WARNING, "the bus cannot be reached: what is to run over it waits"
    ),
    instance_events.BusBack: Line(INFO, "the bus answers again, after %(away).0f s"),
    instance_events.StatusRefused: _status_refused,
    instance_events.RequestAllowed: _request_allowed,
    instance_events.RequestRefused: lambda event: _request(
        event, f"{_REQUEST} refused by %(status)d: %(reason)s"
    ),
    listening.EventsDropped: Line(
        WARNING,
        "the listener %(listener)s is too slow: %(count)d events have been dropped so"
        " far",
    ),
    listening.ListenerFailed: Line(
        ERROR,
        "the listener %(listener)s failed when it was told of %(told)s: %(exception)r",
    ),
    node_events.ExecutorFailed: Line(
        ERROR, "the executor takes no more handlers: %(exception)r"
    ),
    node_events.ExecutorRecovered: Line(WARNING, "the executor takes handlers again"),
    node_events.LoopFailed: _loop_failed,
    node_events.LoopRecovered: Line(
        INFO, "the %(loop)s goes on after %(failures)d failures"
    ),
    node_events.NodeStarted: Line(INFO, "node %(node)s starts"),
    node_events.NodeStopped: _node_stopped,
    node_events.NoticeGiven: _notice_given,
    node_events.ObjectiveBroken: Line(
        WARNING,
        "%(late)d of the last minute's %(runs)d runs are more than %(objective)g s"
        " late",
    ),
    node_events.ObjectiveMet: Line(
        INFO, "runs are at most %(objective)g s late again, after %(after).0f s"
    ),
    node_events.QueueUnserved: Line(WARNING, "%(text)s"),
}
