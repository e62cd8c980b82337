"""What the parts of a node share: its store and time, its runs, and its counts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO, Clock, StoreClock
from go_scheduler.events.event_bus import LOG_ALONE, Events
from go_scheduler.running.defaults import Defaults
from go_scheduler.running.held import Held
from go_scheduler.running.metrics import Metrics
from go_scheduler.ticking.shares import Shares
from go_scheduler.ticking.ticker import Pace, Ticker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from uuid import UUID

    from go_scheduler.settings import Settings
    from go_scheduler.stores.base import Store


class Signal:
    """Tells that something has happened, to parts that its giver does not know."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[], None]] = []

    def connect(self, listener: Callable[[], None]) -> None:
        """Have it called whenever the signal is given."""
        self._listeners.append(listener)

    def __call__(self) -> None:
        """Give the signal."""
        for each in self._listeners:
            each()


class Contact:
    """How long a node's contact with its store has been unbroken.

    After an outage every node must have had the time to renew what it runs before any
    node takes over claims that have lapsed meanwhile.

    A call that fails is no outage, for one of many may be lost at any time: it is one
    if nothing is answered for longer than nodes let pass between two renewals.

    Args:
        clock: Measures elapsed time.
        lease: It is broken by a third of this with failures alone, or by all of it
            without any call.
    """

    def __init__(self, clock: Clock, *, lease: timedelta) -> None:
        self._clock = clock
        self._lease = lease
        self._since: timedelta | None = None
        self._last = ZERO
        self._fails = False

    @property
    def unbroken(self) -> timedelta:
        """For how long it has been; zero before the first."""
        now = self._clock.elapsed()
        # After a long freeze nothing has been noted yet, and it is broken all the same.
        if self._since is None or self._is_silent(now):
            return ZERO
        return now - self._since

    def broken_since(self, elapsed: timedelta) -> bool:
        """Whether it has been broken since then."""
        is_silent = self._is_silent(self._clock.elapsed())
        return self._since is None or is_silent or self._since > elapsed

    def made(self) -> None:
        """The store has answered."""
        now = self._clock.elapsed()
        if self._since is None or self._is_silent(now):
            self._since = now
        self._last = now
        self._fails = False

    def broke(self) -> None:
        """The store has not answered, or not well."""
        self._fails = True

    def _is_silent(self, now: timedelta) -> bool:
        most = self._lease / 3 if self._fails else self._lease
        return now - self._last > most


class NodeState:
    """What the parts of one node share.

    Args:
        store: Where they claim and record.
        clock: The store's time, as this node has it.
        node: The node's id.
        settings: How they behave.
        events: Told of what happens.

    Attributes:
        claimant: The node, as the store needs to know it, with all queues that it
            serves.
        defaults: What holds for definitions that do not say.
        held: The runs that have not ended.
        contact: How well the store answers.
        pace: How long its answers take.
        shares: What of the store's work is this node's own.
        metrics: What begins and ends here, in numbers.
        next_beat: The elapsed time of the next heartbeat.
        beat_wanted: A run may have to be looked after before that.
        room_made: A run has left its worker, or a worker takes more than before.
        slot_freed: A slot may be free.
        work_found: There may be something to claim that was not there before.
    """

    def __init__(
        self,
        store: Store,
        clock: StoreClock,
        node: UUID,
        settings: Settings,
        *,
        events: Events = LOG_ALONE,
    ) -> None:
        self.store = store
        self.clock = clock
        self.node = node
        self.settings = settings
        self.events = events
        self.claimant = replace(settings.claimant(node), queues=())
        self.defaults = Defaults.of(settings)
        self.held = Held(spares=settings.spares)
        self.contact = Contact(clock.base, lease=settings.lease)
        self.pace = Pace(settings.runner_window)
        self.shares = Shares(node, store.shards)
        self.metrics = Metrics()
        self.next_beat = ZERO
        self.beat_wanted = Signal()
        self.room_made = Signal()
        self.slot_freed = Signal()
        self.work_found = Signal()

    def ticker(
        self,
        name: str,
        tick: Callable[[], timedelta | None],
        interval: timedelta | None = None,
        *,
        longest_backoff: timedelta = timedelta(seconds=5),
    ) -> Ticker:
        """A loop of the node, as a ``Ticker`` has it."""
        return Ticker(
            name,
            tick,
            interval=interval,
            clock=self.clock.base,
            longest_backoff=longest_backoff,
            events=self.events,
        )

    def serve(self, queues: Iterable[str]) -> None:
        """Serve these queues from now on, and no others."""
        served = tuple(dict.fromkeys(queues))
        self.claimant = replace(self.claimant, queues=served)


class Part:
    """A part of a node, which has at hand what is shared.

    Args:
        state: What the node's parts share.
    """

    def __init__(self, state: NodeState) -> None:
        self._state = state
        self._store = state.store
        self._clock = state.clock
        self._lease = state.settings.lease
        self._events = state.events.teller("running", bounded=True)
        self._defaults = state.defaults
        self._held = state.held
        self._contact = state.contact
        self._pace = state.pace
        self._shares = state.shares
        self._metrics = state.metrics
