"""The timer: started runs, each handed over at the instant it is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.events.hub import LOG_ALONE, Events
from go_scheduler.running.agenda import Agenda
from go_scheduler.ticking.ticker import Ticker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import timedelta

    from go_scheduler.clock import StoreClock
    from go_scheduler.running.held_run import HeldRun


class Timer:
    """Waits for the next due instant; it never touches the store.

    Args:
        clock: The store's time, as this node has it.
        hand_over: Takes runs that are due.
        prepare: Told of runs that fall due soon.
        events: Told of what fails.

    Attributes:
        ticker: Lets it tick.
    """

    def __init__(
        self,
        clock: StoreClock,
        *,
        hand_over: Callable[[Sequence[HeldRun]], None],
        prepare: Callable[[Sequence[HeldRun]], None] = lambda runs: None,
        events: Events = LOG_ALONE,
    ) -> None:
        self._clock = clock
        self._hand_over = hand_over
        self._prepare = prepare
        self._agenda = Agenda()
        self.ticker = Ticker(
            "timer", self.tick, interval=None, clock=clock.base, events=events
        )

    def add(self, runs: Iterable[HeldRun]) -> None:
        """Hand these over when they are due; those that are due, at once."""
        now = self._clock.now()
        due: list[HeldRun] = []
        later: list[HeldRun] = []
        for run in runs:
            (due if run.instance.due_at <= now else later).append(run)
        if self._agenda.add(later):
            self.ticker.wake()
        self._hand_over(due)
        self._prepare(later)

    def tick(self) -> timedelta | None:
        """Hand over those that are due; answer how long until the next one is."""
        while due := self._agenda.take(self._clock.now()):
            self._hand_over(due)
        first = self._agenda.first
        return None if first is None else first - self._clock.now()
