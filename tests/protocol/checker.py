"""An explicit-state checker: it looks at every state that a model can reach.

It goes breadth first, so what it prints is a shortest way to what is broken. It keeps
the hash of a state and not the state: of two million states some hundred megabytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections import deque
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar

from go_scheduler.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

State = TypeVar("State", bound="tuple[object, ...]")
Value = TypeVar("Value")
Name: TypeAlias = "tuple[object, ...]"
"""What happens in a step, in words that ``str`` makes of its parts."""


def put(values: tuple[Value, ...], at: int, value: Value) -> tuple[Value, ...]:
    """The values with another one at a place."""
    return (*values[:at], value, *values[at + 1 :])


class Model(ABC, Generic[State]):
    """A protocol as states and steps between them."""

    _first: State

    def first(self) -> State:
        """The state in which everything begins."""
        return self._first

    @abstractmethod
    def steps(self, state: State) -> Iterator[tuple[Name, State]]:
        """Every step from a state: what happens, and the state that follows.

        What begins with "fault" is not relied on to reach a good end.
        """

    @abstractmethod
    def broken(self, state: State) -> str:
        """The invariant that does not hold in a state; empty: all hold."""

    @abstractmethod
    def is_good(self, state: State) -> bool:
        """Whether a state is a good end. One has to be reachable from every state."""

    def alike(self, state: State) -> State:
        """One state for all that differ only in which node or instance is which."""
        return state


class Result(NamedTuple):
    """What came of a check.

    Attributes:
        states: How many states there are.
        steps: How many steps between them.
        seconds: How long it took.
        broken: The invariant that does not hold; empty: all hold.
        trace: The steps from the beginning to where it does not.
    """

    states: int
    steps: int
    seconds: float
    broken: str
    trace: Sequence[str]

    def __str__(self) -> str:
        """The counterexample, a step on each line."""
        numbered = (f"{n:3}. {step}" for n, step in enumerate(self.trace, 1))
        return "\n".join([self.broken or "all invariants hold", *numbered])


NO_GOOD_END = "no good end can be reached from here"


class TooManyStates(Exception):
    """A model has more states than it may have: its configuration is too large."""


def check(model: Model[State], *, most: int = 2_000_000) -> Result:
    """Look at all states of a model, until one is broken.

    Args:
        model: The model.
        most: How many states it may have.

    Raises:
        TooManyStates: It has more.
    """
    clock = SystemClock()
    began = clock.elapsed()
    first = model.alike(model.first())
    numbers = {hash(first): 0}
    parents = array("I", [0])
    edges = _Edges()
    good = array("I")
    waiting = deque([first])
    number = -1
    steps = 0

    def result(broken: str, at: int = 0) -> Result:
        trace = _trace(model, numbers, parents, at) if broken else ()
        took = (clock.elapsed() - began).total_seconds()
        return Result(len(parents), steps, took, broken, trace)

    while waiting:
        state = waiting.popleft()
        number += 1
        if broken := model.broken(state):
            return result(broken, number)
        if model.is_good(state):
            good.append(number)
        for name, after in model.steps(state):
            steps += 1
            reached = model.alike(after)
            known = numbers.setdefault(hash(reached), len(parents))
            if known == len(parents):
                parents.append(number)
                waiting.append(reached)
            if name[0] != "fault":
                edges.add(number, known)
        if len(parents) > most:
            raise TooManyStates(f"more than {most:,} states")
    if (lost := edges.first_that_cannot_reach(good, len(parents))) is not None:
        return result(NO_GOOD_END, lost)
    return result("")


class _Edges:
    """Steps between numbered states, kept to be walked backwards."""

    def __init__(self) -> None:
        self._from, self._to = array("I"), array("I")

    def add(self, source: int, target: int) -> None:
        self._from.append(source)
        self._to.append(target)

    def first_that_cannot_reach(self, good: array[int], count: int) -> int | None:
        """The first of so many states from which no good one is reachable."""
        # The edges into a state stand side by side, from its entry in ``begins`` on.
        begins = array("I", bytes(4 * (count + 1)))
        for target in self._to:
            begins[target + 1] += 1
        for each in range(count):
            begins[each + 1] += begins[each]
        place, sources = begins[:], array("I", bytes(4 * len(self._to)))
        for source, target in zip(self._from, self._to, strict=True):
            sources[place[target]] = source
            place[target] += 1
        reaches = bytearray(count)
        for each in good:
            reaches[each] = 1
        waiting = list(good)
        while waiting:
            target = waiting.pop()
            for source in sources[begins[target] : begins[target + 1]]:
                if not reaches[source]:
                    reaches[source] = 1
                    waiting.append(source)
        lost = reaches.find(0)
        return None if lost < 0 else lost


def _trace(
    model: Model[State], numbers: dict[int, int], parents: array[int], at: int
) -> Sequence[str]:
    """The steps to a state, found by going the same way once more."""
    way = []
    while at:
        way.append(at)
        at = parents[at]
    trace, state = [], model.alike(model.first())
    for each in reversed(way):
        for name, after in model.steps(state):
            reached = model.alike(after)
            if numbers.get(hash(reached)) == each:
                trace.append(" ".join(map(str, name)))
                state = reached
                break
    return trace
