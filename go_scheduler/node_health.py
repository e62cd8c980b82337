"""What a node looks for beside its loops: queues that no node serves, and hints."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO, DrivingClock
from go_scheduler.events import QueueUnserved
from go_scheduler.events.event_bus import LOG_ALONE, Events
from go_scheduler.stores.hints import News
from go_scheduler.ticking.ticker import Ticker

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from go_scheduler.clock import Clock
    from go_scheduler.stores.base import Store

_EVERY = timedelta(seconds=20)
# A node that serves the queue may be about to start.
_PATIENCE = timedelta(minutes=1)
# A node that was not seen for some seconds may still be running.
_ALIVE = timedelta(minutes=5)
_MOST = 100


class UnservedQueues:
    """Looks now and then for queues that no node serves; warns once for each.

    Args:
        store: Where to look.
        clock: Measures elapsed time.
        events: Told of them.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        events: Events = LOG_ALONE,
    ) -> None:
        self._events = events.teller("node")
        self._store = store
        self._clock = clock
        self._looked: timedelta | None = None
        self._since: dict[str, timedelta] = {}
        self._texts: dict[str, str] = {}

    @property
    def texts(self) -> tuple[str, ...]:
        """A text for each of them."""
        return tuple(self._texts.values())

    def look(self, own: Collection[str]) -> None:
        """Look, unless the last look was a moment ago.

        Args:
            own: The queues that this node serves.
        """
        elapsed = self._clock.elapsed()
        if self._looked is not None and elapsed - self._looked < _EVERY:
            return
        self._looked = elapsed
        unserved, served = self._unserved(own)
        self._since = {each: self._since.get(each, elapsed) for each in unserved}
        texts = {
            queue: _text(queue, served)
            for queue, since in self._since.items()
            if elapsed - since >= _PATIENCE
        }
        for queue in texts.keys() - self._texts.keys():
            self._events.tell(QueueUnserved(queue=queue, text=texts[queue]))
        self._texts = texts

    def _unserved(self, own: Collection[str]) -> tuple[Sequence[str], Collection[str]]:
        """The queues that have something due and no node, and those that have one."""
        found: list[str] = []
        served = set(own)
        # If this node serves all that is due, the other nodes do not matter.
        if not self._store.list_due_queues(apart_from=own):
            return found, served
        for contact in self._store.list_contacts(within=_ALIVE):
            if contact.announced.queues is None:
                # It may serve all queues.
                return found, served
            if not contact.announced.stopping:
                served.update(contact.announced.queues)
        while len(found) < _MOST:
            more = self._store.list_due_queues(apart_from=served.union(found))
            if not more:
                break
            found += more
        return found, served


def _text(queue: str, served: Collection[str]) -> str:
    names = ", ".join(map(repr, sorted(served)[:_MOST])) or "none"
    return (
        f"queue {queue!r} is served by no node, and something is due there; served are"
        f" {names}: name it in the queues= of a scheduler, or mind its spelling"
    )


class HintedLooks:
    """Waits for hints on a thread of its own, and has the node look.

    On a driving clock no thread can wait; there only the loops' own looks count.

    Args:
        store: Gives the hints, if it has any.
        clock: Measures the time between ticks.
        runs: Whether the node runs anything; otherwise it need not look.
        looks: What to call for each kind of hint.
        events: Told when hints fail.

    Attributes:
        tickers: The ticker of the thread, if there is one.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        runs: bool,
        looks: Mapping[News, Callable[[], None]],
        events: Events = LOG_ALONE,
    ) -> None:
        waits = runs and not isinstance(clock, DrivingClock)
        self._hints = store.hints() if waits else None
        self._looks = looks
        self._again = False
        self.tickers: list[Ticker] = []
        if self._hints is not None:
            self.tickers.append(
                Ticker("listener", self.tick, interval=None, clock=clock, events=events)
            )

    def tick(self) -> timedelta:
        """Wait for a hint and look; return when to look for what the hint left out."""
        assert self._hints is not None, "else nothing ticks"
        # What the hint left out may be of the other kind.
        news = News.ANYTHING if self._again else self._hints.wait()
        for each, look in self._looks.items():
            if each in news:
                look()
        self._again = bool(news) and not self._again and self._hints.blind > ZERO
        return self._hints.blind if self._again else ZERO

    def close(self) -> None:
        """End the wait for hints."""
        for each in self.tickers:
            each.stop()
        if self._hints is not None:
            self._hints.close()
