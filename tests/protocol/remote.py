"""Remote ends: runs that are handed on over a bus, which delivers twice or late.

A run is published, a worker takes its message, says so, and then begins; what it says
goes back over the bus and is recorded by whichever node hears it. Statuses may come
twice and in another order. Whoever accepts a run first has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.protocol.checker import Model, put

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.protocol.checker import Name

NOBODY = -1
STAGES = ("published", "accepted", "started")

GUARDS = {
    "first worker": "to another worker than the first that accepts it a run is lost",
    "its worker": "a failure counts only if it is said by the worker that has the run",
    "never back": "a stage that is heard late does not go back",
    "current": "what is said of an older attempt does not count, but for a success",
    "first success": "a success is taken only if there was none before",
    "once": "a worker that gets a message again does not call the handler again",
    "silence": "a run of which nothing is heard is published anew in time",
}


class Row(NamedTuple):
    """The instance: its claim, how far its run has come, who has it, how it ended."""

    attempt: int = 0
    stage: str = ""
    worker: int = NOBODY
    outcome: str = ""
    by: int = 0


class Status(NamedTuple):
    """What a worker has said, and nobody has recorded."""

    attempt: int
    worker: int
    kind: str


class Work(NamedTuple):
    """What a worker does with an attempt."""

    attempt: int
    stage: str


class State(NamedTuple):
    """The row, what is on the bus, the workers, and what the invariants need.

    Attributes:
        row: The instance.
        messages: The attempts whose message is on the bus.
        statuses: What is to be recorded.
        workers: What each does; None: it has died.
        calls: How often the handler was called.
        faults: How many may still come.
        excused: How many more calls those that have come account for.
    """

    row: Row
    messages: tuple[int, ...]
    statuses: tuple[Status, ...]
    workers: tuple[tuple[Work, ...] | None, ...]
    calls: int
    faults: int
    excused: int = 0
    broken: str = ""


class Remote(Model[State]):
    """Workers on a bus, and one instance.

    Args:
        workers: How many there are.
        faults: How often a handler fails, a worker dies or is not heard in time, a
            message is lost or comes twice, or a status is recorded twice.
        without: The guard that is left out, to see what it is for.
    """

    def __init__(self, *, workers: int = 2, faults: int = 2, without: str = "") -> None:
        self._first = State(Row(), (), (), ((),) * workers, 0, faults)
        self._without = without

    def broken(self, state: State) -> str:
        if state.calls > 1 + state.excused:
            return "a handler is called twice though nothing went wrong"
        return state.broken

    def is_good(self, state: State) -> bool:
        return bool(state.row.outcome)

    def steps(self, state: State) -> Iterator[tuple[Name, State]]:
        row = state.row
        if state.broken:
            return
        if not row.stage and not row.outcome:
            yield ("is published",), _published(state)
        for worker, works in enumerate(state.workers):
            if works is not None:
                yield from self._works(state, worker, works)
        for index, status in enumerate(state.statuses):
            left = state.statuses[:index] + state.statuses[index + 1 :]
            heard = self._recorded(state._replace(statuses=left), status)
            yield ("recorded:", *status), heard
            if state.faults:
                again = self._recorded(_spent(state), status)
                yield ("fault: recorded, and comes again:", *status), again
        if self._without != "silence" and _is_silent(state):
            yield ("nothing is heard of it",), _again(state)
        if state.faults:
            yield from self._faults(_spent(state))

    def _works(
        self, state: State, worker: int, works: tuple[Work, ...]
    ) -> Iterator[tuple[Name, State]]:
        for attempt in set(state.messages):
            taken = _without(state, attempt)
            knows = any(each.attempt == attempt for each in works)
            if knows and self._without != "once":
                yield (worker, "has", attempt, "already"), taken
            else:
                after = _said(taken, worker, attempt, "accepted")
                yield (
                    (worker, "accepts", attempt),
                    _with(after, worker, (*works, Work(attempt, "accepted"))),
                )
        for index, each in enumerate(works):
            rest = works[:index] + works[index + 1 :]
            if each.stage == "accepted":
                after = _said(state, worker, each.attempt, "started")
                after = after._replace(calls=state.calls + 1)
                begun = (*rest, each._replace(stage="started"))
                after = _with(after, worker, begun)
                if any(other.attempt == each.attempt for other in rest):
                    after = after._replace(broken="a worker runs one attempt twice")
                yield (worker, "begins", each.attempt), after
            elif each.stage == "started":
                done = (*rest, each._replace(stage="ended"))
                after = _said(state, worker, each.attempt, "completed")
                yield (worker, "completes", each.attempt), _with(after, worker, done)
                if state.faults:
                    after = _said(_spent(state), worker, each.attempt, "failed")
                    yield (worker, "fails", each.attempt), _with(after, worker, done)

    def _recorded(self, state: State, status: Status) -> State:
        row, attempt, worker, kind = state.row, *status
        if kind == "completed":
            return self._completed(state, attempt)
        if row.outcome:
            return state
        if attempt != row.attempt or not row.stage:
            if self._without != "current":
                return state
            return state._replace(broken="what is said of an older attempt counts")
        is_other = row.worker not in (NOBODY, worker)
        if kind == "failed":
            if is_other and self._without != "its worker":
                return state
            if _runs_elsewhere(state, worker):
                return state._replace(broken="a failure ends the run of another worker")
            return _again(state)
        if is_other and self._without != "first worker":
            return state
        if is_other:
            return state._replace(broken="a run is taken from the worker that has it")
        if STAGES.index(kind) < STAGES.index(row.stage):
            if self._without == "never back":
                return state._replace(broken="what has begun counts as not begun")
            return state
        return state._replace(row=row._replace(stage=kind, worker=worker))

    def _completed(self, state: State, attempt: int) -> State:
        row = state.row
        if row.outcome and self._without != "first success":
            return state
        if row.outcome and row.by != attempt:
            return state._replace(broken="a success is written over a success")
        return state._replace(row=row._replace(outcome="completed", by=attempt))

    def _faults(self, state: State) -> Iterator[tuple[Name, State]]:
        for worker, works in enumerate(state.workers):
            others = sum(each is not None for each in state.workers)
            if works is not None and others > 1:
                workers = put(state.workers, worker, None)
                yield ("fault", worker, "dies"), state._replace(workers=workers)
        for attempt in set(state.messages):
            yield ("fault", "a message is lost:", attempt), _without(state, attempt)
            if state.messages.count(attempt) == 1:
                twice = state._replace(
                    messages=tuple(sorted((*state.messages, attempt))),
                    excused=state.excused + 1,
                )
                yield ("fault", "a message comes twice:", attempt), twice
        if state.row.stage and not state.row.outcome:
            yield ("fault", "its worker is not heard in time"), _again(state)


def _published(state: State) -> State:
    attempt = state.row.attempt + 1
    messages = tuple(sorted((*state.messages, attempt)))
    return state._replace(row=Row(attempt, "published"), messages=messages)


def _again(state: State) -> State:
    """It has failed, and is to be published anew, and so called once more."""
    row = Row(state.row.attempt)
    return state._replace(row=row, excused=state.excused + 1)


def _is_silent(state: State) -> bool:
    """Whether nobody can say anything of the run any more."""
    attempt = state.row.attempt
    return (
        bool(state.row.stage)
        and not state.row.outcome
        and attempt not in state.messages
        and not any(each.attempt == attempt for each in state.statuses)
        and not any(
            each.attempt == attempt and each.stage != "ended"
            for works in state.workers
            for each in works or ()
        )
    )


def _runs_elsewhere(state: State, worker: int) -> bool:
    """Whether the worker that has the run goes on with it, and is not this one."""
    has = state.row.worker
    return has not in (NOBODY, worker) and any(
        each.attempt == state.row.attempt and each.stage != "ended"
        for each in state.workers[has] or ()
    )


def _spent(state: State) -> State:
    return state._replace(faults=state.faults - 1)


def _said(state: State, worker: int, attempt: int, kind: str) -> State:
    said = tuple(sorted((*state.statuses, Status(attempt, worker, kind))))
    return state._replace(statuses=said)


def _without(state: State, attempt: int) -> State:
    messages = list(state.messages)
    messages.remove(attempt)
    return state._replace(messages=tuple(messages))


def _with(state: State, worker: int, works: tuple[Work, ...]) -> State:
    workers = put(state.workers, worker, tuple(sorted(works)))
    return state._replace(workers=workers)
