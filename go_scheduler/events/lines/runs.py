"""Lines about runs and what came of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.events.instance_events import (
    CompletedRunFailed,
    InstanceGivenBack,
    ResultDiscarded,
    ResultLost,
    RunDeferred,
    RunFailed,
    RunHung,
    RunLeftBehind,
    RunTimedOut,
)
from go_scheduler.events.lines.line import (
    ERROR,
    INFO,
    WARNING,
    Line,
    line_of,
    run_ids,
)

if TYPE_CHECKING:
    from go_scheduler.events.event import InstanceEvent


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
