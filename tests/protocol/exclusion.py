"""Exclusion: of those that share a lock or a limit at most so many run at once.

Slots are rows, each empty or held by an instance. A start takes an empty one, or parks
its instance; an end empties it; a review lets go on what is parked while a slot is
empty. What a statement reads without a lock may be older than what it writes: how, is
the engine's ``Mode``.
"""

from __future__ import annotations

from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from tests.protocol.checker import Model, put

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.protocol.checker import Name

EMPTY = -1


class Mode(Enum):
    """What a statement reads of rows that others change meanwhile.

    Attributes:
        ATOMIC: Nothing changes meanwhile: SQLite, Redis, memory, and what is
            serializable, as it is repeated as a whole.
        POSTGRESQL: READ COMMITTED: a row that is locked is read again, and all else is
            as it was when the statement began.
        COCKROACHDB: READ COMMITTED there: if a row that it locks has changed, the whole
            statement begins again.
    """

    ATOMIC = "atomic"
    POSTGRESQL = "postgresql"
    COCKROACHDB = "cockroachdb"


GUARDS = {
    "reads again": "a slot is read again once it is locked, before it is taken",
    "sweep": "a review comes now and then, and not only after an end",
    "own": "an end empties only the slot that its instance holds",
    "behind": "what was due beside another one is judged by that, though it has ended",
    "open": "a slot is emptied for others only if its holder has ended",
}


class Instance(NamedTuple):
    """An instance.

    Attributes:
        stage: Whether it waits, is parked, runs, has ended, or was skipped.
        behind: Behind which instance it was parked.
        read: The slots as the start that is under way has read them.
        retried: Whether a run of it has failed, after which it waits with its slot.
    """

    stage: str = "waits"
    behind: int = EMPTY
    read: tuple[int, ...] = ()
    retried: bool = False


class State(NamedTuple):
    """The tables, whether a review is asked for, and how many runs may still fail."""

    slots: tuple[int, ...]
    instances: tuple[Instance, ...]
    review: bool
    failures: int
    broken: str = ""


class Exclusion(Model[State]):
    """Instances that start, end and are reviewed, with so many slots.

    Args:
        mode: How a statement reads.
        slots: How many of them may run at once; one is a lock.
        instances: How many share them.
        skips: Whether what is due while another one runs is skipped, and does not wait.
        failures: How many runs may fail, after which their instances keep their slots.
        without: The guard that is left out, to see what it is for.
    """

    def __init__(
        self,
        mode: Mode,
        *,
        slots: int = 1,
        instances: int = 3,
        skips: bool = False,
        failures: int = 1,
        without: str = "",
    ) -> None:
        self._first = State(
            (EMPTY,) * slots, (Instance(),) * instances, False, failures
        )
        self._mode = mode
        self._skips = skips
        self._without = without

    def broken(self, state: State) -> str:
        runs = sum(each.stage == "runs" for each in state.instances)
        if runs > len(state.slots):
            return f"{runs} run at once, and at most {len(state.slots)} may"
        return state.broken

    def is_good(self, state: State) -> bool:
        return all(each.stage in ("ended", "skipped") for each in state.instances)

    def steps(self, state: State) -> Iterator[tuple[Name, State]]:
        if state.broken:
            return
        for at, each in enumerate(state.instances):
            if each.read:
                yield ("the start of", at, "is carried out"), self._started(state, at)
            elif each.stage == "waits":
                begun = _with(state, at, each._replace(read=state.slots))
                if self._mode is Mode.ATOMIC:
                    yield ("starts:", at), self._started(begun, at)
                else:
                    yield ("a start reads the slots:", at), begun
            elif each.stage == "runs":
                yield ("ends:", at), self._ended(state, at)
                if state.failures:
                    # It is due again, and keeps its slot meanwhile.
                    after = state._replace(failures=state.failures - 1)
                    failed = each._replace(stage="waits", retried=True)
                    yield ("fails, and is to run again:", at), _with(after, at, failed)
        any_parked = any(each.stage == "parked" for each in state.instances)
        if state.review or (any_parked and self._without != "sweep"):
            yield ("review",), self._reviewed(state)

    def _started(self, state: State, at: int) -> State:
        """One statement: it takes a slot or parks its instance."""
        each = state.instances[at]
        read = state.slots if self._mode is Mode.ATOMIC else each.read
        if at in read:
            return _with(state, at, each._replace(stage="runs", read=()))
        if EMPTY not in read:
            return self._parked(state, at, behind=read[0])
        # It locks the first slot that it has seen empty, and reads that again.
        taken = read.index(EMPTY)
        holder = state.slots[taken]
        if holder != EMPTY and self._without != "reads again":
            if self._mode is Mode.POSTGRESQL:
                return self._parked(state, at, behind=holder)
            # It begins again.
            return self._started(_with(state, at, each._replace(read=state.slots)), at)
        slots = put(state.slots, taken, at)
        started = each._replace(stage="runs", behind=EMPTY, read=())
        return _with(state._replace(slots=slots), at, started)

    def _parked(self, state: State, at: int, *, behind: int) -> State:
        parked = state.instances[at]._replace(stage="parked", behind=behind, read=())
        return _with(state, at, parked)

    def _ended(self, state: State, at: int) -> State:
        slots = tuple(
            EMPTY if each == at or self._without == "own" else each
            for each in state.slots
        )
        ended = Instance("ended")
        return _with(state._replace(slots=slots, review=True), at, ended)

    def _reviewed(self, state: State) -> State:
        """Decide on what is parked, and let go on as many as there are empty slots."""
        state = state._replace(review=False)
        # What has ended without emptying its slot has not taken anything with it.
        slots = tuple(
            EMPTY
            if each != EMPTY and (self._may_be_emptied(state.instances[each]))
            else each
            for each in state.slots
        )
        state = state._replace(slots=slots)
        parked = [
            at for at, each in enumerate(state.instances) if each.stage == "parked"
        ]
        if self._skips:
            for at in parked:
                # One that is behind another one of its own was due beside that.
                if self._without != "behind" or EMPTY not in state.slots:
                    state = _with(state, at, Instance("skipped"))
                else:
                    state = state._replace(broken="it runs though another one ran")
            return state
        for at in parked[: state.slots.count(EMPTY)]:
            state = _with(state, at, state.instances[at]._replace(stage="waits"))
        return state

    def _may_be_emptied(self, holder: Instance) -> bool:
        if self._without == "open":
            return holder.stage != "runs"
        return holder.stage in ("ended", "skipped")


def _with(state: State, at: int, instance: Instance) -> State:
    return state._replace(instances=put(state.instances, at, instance))


RATE_GUARDS = {
    "locked": "a token is taken of a row that is locked",
    "that instant": "it is taken for the instant that is recorded as the start",
}
SPAN = 2
"""At most one start in so many instants one after the other."""
LAST = 5


class Reading(NamedTuple):
    """What a start has read: the instant, and from when on there is a token."""

    now: int
    free_at: int


class RateState(NamedTuple):
    """The tables of a rate.

    Attributes:
        now: The instant.
        free_at: From when on there is a token.
        read: What each start that is under way has read.
        starts: When which instance was started, as it is recorded.
    """

    now: int
    free_at: int
    read: tuple[Reading | None, ...]
    starts: tuple[int, ...]


class Rate(Model[RateState]):
    """Instances of which one may start in each span of time.

    Args:
        instances: How many there are.
        without: The guard that is left out, to see what it is for.
    """

    def __init__(self, *, instances: int = 3, without: str = "") -> None:
        self._first = RateState(0, 0, (None,) * instances, (EMPTY,) * instances)
        self._without = without

    def alike(self, state: RateState) -> RateState:
        pairs = sorted(
            zip(state.read, state.starts, strict=True),
            key=lambda each: (each[0] or (EMPTY, EMPTY), each[1]),
        )
        read, starts = zip(*pairs, strict=True)
        return state._replace(read=read, starts=starts)

    def broken(self, state: RateState) -> str:
        starts = sorted(each for each in state.starts if each != EMPTY)
        if any(later - each < SPAN for each, later in pairwise(starts)):
            return "two have started within one span"
        return ""

    def is_good(self, state: RateState) -> bool:
        """All have started, or this model has no instant left for it."""
        return EMPTY not in state.starts or state.now == LAST

    def steps(self, state: RateState) -> Iterator[tuple[Name, RateState]]:
        if state.now < LAST:
            yield ("time passes:", state.now), state._replace(now=state.now + 1)
        for at, (read, start) in enumerate(zip(state.read, state.starts, strict=True)):
            if read:
                yield ("the start of", at, "is carried out"), self._started(state, at)
            elif start == EMPTY:
                seen = put(state.read, at, Reading(state.now, state.free_at))
                yield ("a start begins:", at), state._replace(read=seen)

    def _started(self, state: RateState, at: int) -> RateState:
        read = state.read[at]
        assert read is not None
        state = state._replace(read=put(state.read, at, None))
        free_at = read.free_at if self._without == "locked" else state.free_at
        taken_for = read.now if self._without == "that instant" else state.now
        if free_at > taken_for:
            # It waits for its turn.
            return state
        starts = put(state.starts, at, state.now)
        return state._replace(free_at=taken_for + SPAN, starts=starts)
