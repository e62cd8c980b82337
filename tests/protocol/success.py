"""Late success and retries: the first success wins, of whichever run, and stays.

A run that lost its claim, or was given up as hung, may come to an end all the same. Its
failure says nothing any more; its success counts if there was none before. By
``complete_in`` it is committed with rows of the user's. Without a retention the first
success deletes the instance, and whoever reports an end again finds no row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.protocol.checker import Model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.protocol.checker import Name

GUARDS = {
    "first": "a success is taken only if there was none before",
    "not cancelled": "what was cancelled stays so",
    "current": "a failure counts only under the claim that is current",
    "attempt goes on": "what is run again by hand goes on with its attempts",
    "late": "a success counts though its claim is not current any more",
    "one transaction": "complete_in() looks and commits under the lock of the row",
}
OF_DELETION = {
    "claimed once": "only what was claimed once is deleted as it succeeds",
}


class Row(NamedTuple):
    """An instance.

    Attributes:
        attempt: How many claims it has had.
        claimed: Whether it is claimed.
        outcome: How it ended; empty: it is open.
        by: The attempt that has ended it.
        gone: Whether it has been deleted with that.
    """

    attempt: int = 0
    claimed: bool = False
    outcome: str = ""
    by: int = 0
    gone: bool = False


class Run(NamedTuple):
    """A run that was called and has not returned.

    Attributes:
        attempt: The attempt under which it was called.
        number: Which call it was.
        looked: Whether its ``complete_in`` has found that it may commit.
    """

    attempt: int
    number: int
    looked: bool = False


class State(NamedTuple):
    """The row, the runs, and of history what the invariants need.

    Attributes:
        row: The instance.
        runs: Those that go on.
        calls: How often its handler was called.
        reopened: Whether it was run again by hand.
        committed: How often rows of the user's were committed by ``complete_in``.
        succeeded: Whether a run has succeeded while the instance was not cancelled.
        completed_by: The attempt whose success was recorded first.
    """

    row: Row
    runs: tuple[Run, ...] = ()
    calls: int = 0
    reopened: bool = False
    committed: int = 0
    succeeded: bool = False
    completed_by: int = 0
    broken: str = ""


class Success(Model[State]):
    """Runs of one instance, of which several may go on at the same time.

    Args:
        calls: How often its handler is called at most.
        deletes: Whether a success need not be kept.
        without: The guard that is left out, to see what it is for.
    """

    def __init__(
        self, *, calls: int = 3, deletes: bool = False, without: str = ""
    ) -> None:
        self._first = State(Row())
        self._calls = calls
        self._deletes = deletes
        self._without = without

    def alike(self, state: State) -> State:
        return state._replace(runs=tuple(sorted(state.runs)))

    def broken(self, state: State) -> str:
        row = state.row
        if state.committed > 1:
            return "rows of the user's are committed twice"
        if state.completed_by and (row.outcome, row.by) != (
            "completed",
            state.completed_by,
        ):
            return "the first success does not stay"
        if state.succeeded and not state.runs and row.outcome != "completed":
            return "a success is not recorded"
        return state.broken

    def is_good(self, state: State) -> bool:
        return bool(state.row.outcome) and not state.runs

    def steps(self, state: State) -> Iterator[tuple[Name, State]]:
        row = state.row
        if not row.outcome and not row.claimed and state.calls < self._calls:
            yield ("is claimed and called",), self._called(state)
        if row.claimed and not row.outcome and state.calls < self._calls:
            open_again = row._replace(claimed=False)
            yield ("its claim lapses",), state._replace(row=open_again)
        if not row.outcome and not row.claimed:
            yield ("somebody cancels it",), _ended(state, "cancelled", 0)
        if row.outcome == "failed" and not state.reopened:
            yield ("somebody has it run again",), self._reopened(state)
        for index, run in enumerate(state.runs):
            yield from self._goes_on(state, index, run)

    def _called(self, state: State) -> State:
        row = state.row._replace(attempt=state.row.attempt + 1, claimed=True)
        runs = (*state.runs, Run(row.attempt, state.calls + 1))
        return state._replace(row=row, runs=runs, calls=state.calls + 1)

    def _reopened(self, state: State) -> State:
        attempt = state.row.attempt
        row = Row(attempt=attempt if self._without != "attempt goes on" else 0)
        return state._replace(row=row, reopened=True)

    def _goes_on(
        self, state: State, index: int, run: Run
    ) -> Iterator[tuple[Name, State]]:
        over = state._replace(runs=state.runs[:index] + state.runs[index + 1 :])
        if not run.looked:
            yield ("run", run.number, "fails"), self._failed(over, run)
            yield ("run", run.number, "returns"), self._succeeded(over, run)
            if self._deletes:
                name = ("run", run.number, "returns, and will say so again")
                yield name, self._succeeded(state, run)
        if self._without != "one transaction":
            if self._may_complete(state.row, run):
                after = self._succeeded(over, run)
                after = after._replace(committed=state.committed + 1)
                yield ("run", run.number, "commits with complete_in()"), after
        elif run.looked:
            after = self._succeeded(over, run)
            after = after._replace(committed=state.committed + 1)
            yield ("run", run.number, "commits its rows"), after
        elif self._may_complete(state.row, run):
            runs = (*over.runs, run._replace(looked=True))
            name = ("run", run.number, "finds that it may commit")
            yield name, state._replace(runs=runs)

    def _failed(self, state: State, run: Run) -> State:
        row = state.row
        is_current = row.claimed and row.attempt == run.attempt and not row.outcome
        if not is_current and (row.outcome or self._without != "current"):
            return state
        if row.claimed and any(each.attempt == row.attempt for each in state.runs):
            return state._replace(broken="a failure ends a run that goes on")
        if state.calls == self._calls:
            return _ended(state, "failed", run.attempt)
        return state._replace(row=row._replace(claimed=False))

    def _succeeded(self, state: State, run: Run) -> State:
        if state.row.outcome != "cancelled":
            state = state._replace(succeeded=True)
        if state.row.gone and state.row.by != run.attempt:
            # Its claim was given out, and there is no row.
            return state._replace(broken="a run is told that it has completed it")
        if not self._may_complete(state.row, run):
            return state
        if state.row.outcome == "cancelled":
            state = state._replace(broken="what was cancelled has succeeded")
        if not state.completed_by:
            state = state._replace(completed_by=run.attempt)
        ended = _ended(state, "completed", run.attempt)
        once = state.row.attempt == 1 and not state.row.outcome
        if self._deletes and (once or self._without == "claimed once"):
            return ended._replace(row=ended.row._replace(gone=True))
        return ended

    def _may_complete(self, row: Row, run: Run) -> bool:
        if row.gone:
            return False
        if row.attempt < run.attempt:
            return False
        if self._without == "late" and not (
            row.claimed and row.attempt == run.attempt and not row.outcome
        ):
            return False
        if row.outcome == "completed":
            return self._without == "first"
        return row.outcome != "cancelled" or self._without == "not cancelled"


def _ended(state: State, outcome: str, by: int) -> State:
    row = state.row._replace(outcome=outcome, claimed=False, by=by)
    return state._replace(row=row)
