"""What a scheduler says of itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Self
from uuid import UUID

from go_scheduler.formatting import shown

if TYPE_CHECKING:
    from go_scheduler.models import Histogram
    from go_scheduler.ticking.ticker import Ticker

_LATE = timedelta(seconds=10)
_MOST_WARNINGS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopHealth:
    """One loop of a running scheduler.

    Attributes:
        ok: Whether it ticks, succeeds, and is not late by more than ten seconds.
        last_good: How long ago its last good tick ended; None: it has had none.
        error: What its last tick raised; None: nothing.
    """

    ok: bool
    last_good: timedelta | None
    error: str | None

    @classmethod
    def of(cls, ticker: Ticker, elapsed: timedelta) -> Self:
        """The health of a loop at this elapsed time."""
        error, last_good = ticker.error, ticker.last_good
        return cls(
            ok=error is None and ticker.late < _LATE and not ticker.ended,
            last_good=None if last_good is None else elapsed - last_good,
            error=None if error is None else shown(error),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lateness:
    """How late the runs of a period began.

    Attributes:
        runs: How many there were.
        p50: Half of them began at most so late; None: there were none. As all such
            numbers it is rounded up, by half at most; a day also means anything later.
        p99: The same of 99 in a hundred.
    """

    runs: int = 0
    p50: timedelta | None = None
    p99: timedelta | None = None

    @classmethod
    def of(cls, counted: Histogram) -> Self:
        """The lateness of the runs that were counted."""
        return cls(
            runs=counted.total, p50=counted.quantile(0.5), p99=counted.quantile(0.99)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentLateness:
    """How late runs began here lately.

    Attributes:
        minute: Those of the last minute.
        hour: Those of the last hour.
        day: Those of the last day, as far as this node has run.
        objective: The ``lateness_objective``; None: there is none.
        met: Whether 99 in a hundred of the last minute's began no later than that;
            None: there is none.
    """

    minute: Lateness = Lateness()
    hour: Lateness = Lateness()
    day: Lateness = Lateness()
    objective: timedelta | None = None
    met: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """A scheduler at one moment.

    Attributes:
        ok: Whether it runs and claims, all its loops are well, and no worker or trigger
            is stuck.
        trouble: Why it claims nothing: it has not been started, or an executor is
            broken; None: it claims.
        warnings: What somebody should look into, such as names that have no handler
            here, or queues in which something is due and that no node serves, each
            once; the log had each of them once.
        node: The node's id; None: it does not run.
        loops: Each loop by its name.
        store_reachable: Whether it runs, and no loop's last tick failed for want of the
            store; ``check()`` asks the store itself, and needs no start.
        stuck_workers: Handlers that outlived ``expire_after``, or a ``timeout`` that
            could not end them, and have not returned.
        hanging_triggers: Triggers that were called and have not answered.
        waiting: Instances held until they are due.
        busy: Instances that need a worker or have one.
        unrecorded: Results that the store has not taken yet.
        events_dropped: Events of which listeners were not told, as they are too slow.
        lateness: How late runs began here in the last minute, hour and day.
    """

    ok: bool
    trouble: str | None
    warnings: tuple[str, ...]
    node: UUID | None
    loops: Mapping[str, LoopHealth]
    store_reachable: bool
    stuck_workers: int
    hanging_triggers: int
    waiting: int
    busy: int
    unrecorded: int
    events_dropped: int = 0
    lateness: RecentLateness = RecentLateness()


def not_running(trouble: str) -> Health:
    """The health of a scheduler that does not run, for the reason given."""
    return Health(
        ok=False,
        trouble=trouble,
        warnings=(),
        node=None,
        loops={},
        store_reachable=False,
        stuck_workers=0,
        hanging_triggers=0,
        waiting=0,
        busy=0,
        unrecorded=0,
    )


class HealthWarnings:
    """Texts in the order in which they came, each once, a thousand at most.

    They are followed by warnings that hold at this moment only.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: dict[str, None] = {}
        self._passing: list[Callable[[], Sequence[str]]] = []

    @property
    def texts(self) -> tuple[str, ...]:
        """All warnings."""
        with self._lock:
            passing = (text for each in self._passing for text in each())
            return (*self._texts, *passing)

    @contextmanager
    def passing(self, texts: Callable[[], Sequence[str]]) -> Iterator[None]:
        """Within this context, add the warnings that a function gives at once."""
        with self._lock:
            self._passing.append(texts)
        try:
            yield
        finally:
            with self._lock:
                self._passing.remove(texts)

    def add(self, text: str) -> bool:
        """Add a text; return false if it is known already, or there are too many."""
        with self._lock:
            if text in self._texts or len(self._texts) >= _MOST_WARNINGS:
                return False
            self._texts[text] = None
            return True
