"""Hearing: takes what workers say off the bus, and tells them what is to end."""

from __future__ import annotations

import logging
import threading
from collections import deque
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Self

from go_scheduler.clock import ZERO
from go_scheduler.dispatch.cancelling import Cancelling
from go_scheduler.dispatch.paced_log import PacedLog
from go_scheduler.dispatch.recording import Recording
from go_scheduler.dispatch.statuses import Heard, Opened
from go_scheduler.dispatch.taken_delivery import TakenDelivery
from go_scheduler.events.bus_events import BusAway, BusBack, StatusRefused
from go_scheduler.events.instance_events import InstanceCancelRequested
from go_scheduler.stores.messages import Claim
from go_scheduler.ticking.ticker import Ticker

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from go_scheduler.dispatch.bus import Delivery, MessageBus
    from go_scheduler.dispatch.timeouts import Timeouts
    from go_scheduler.dispatch.topics import Topics
    from go_scheduler.events.event import Event
    from go_scheduler.running.handed_out import HandedOut
    from go_scheduler.scheduler import Scheduler

_AWAY = "the message bus cannot be reached: what is to run over it waits"
# So many are kept while the store is away; the bus keeps the others.
_PREFETCH = 1000
_LOOKS = timedelta(seconds=1)
_LOCKED = timedelta(milliseconds=200)


class Hearing:
    """Has what is said recorded, many in one write, and acknowledged when it is.

    What the store does not take stays with the bus, or here and unacknowledged: no
    more than a thousand of them.

    Args:
        scheduler: By whose store and settings.
        bus: The bus.
        topics: The names of its topics.
        timeouts: How long runs are kept by what they say.
        handed_out: What was published here.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        bus: MessageBus,
        topics: Topics,
        *,
        timeouts: Timeouts,
        handed_out: HandedOut,
    ) -> None:
        self._scheduler = scheduler
        self._bus = bus
        self._topics = topics
        self._clock = scheduler._clock
        self._events = scheduler.teller("dispatch", bounded=True)
        self._log = PacedLog(logging.getLogger("go_scheduler.dispatch"), self._clock)
        self._begun = self._clock.elapsed()
        self._cancelling = Cancelling(bus, topics)
        self._recording = Recording(
            scheduler,
            timeouts=timeouts,
            handed_out=handed_out,
            cancelling=self._cancelling,
            tell=self._events.tell,
        )
        # After the bus was away the oldest of them come again, and are none of ours.
        self._arrived: deque[Delivery] = deque(maxlen=_PREFETCH)
        self._open: dict[Heard, None] = {}
        self._away_since: timedelta | None = None
        self._ticking = threading.Lock()
        self._ticker = Ticker(
            "hearing",
            self.tick,
            interval=_LOOKS,
            clock=self._clock,
            events=scheduler._hub,
        )
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        told = self._scheduler._hub.told(self._cancel, InstanceCancelRequested)
        with ExitStack() as stack:
            stack.callback(self._log.close)
            stack.callback(self._wait)
            self._ticker.start()
            stack.callback(self._ticker.stop)
            subscription = self._bus.subscribe(
                self._topics.statuses, self._hear, prefetch=_PREFETCH
            )
            stack.callback(subscription.close)
            stack.enter_context(self._scheduler._notices.passing(self._warn))
            stack.enter_context(told)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def tick(self) -> timedelta | None:
        """Tell and record what there is; answers how soon to be called again.

        Raises:
            StoreUnavailableError: The store is away.
        """
        with self._ticking:
            now = self._clock.elapsed()
            # Not at each tick: what comes makes it tick as often as it comes.
            if now >= self._begun + _LOOKS:
                self._begun = now
                self._events.begin()
            self._watch_bus()
            self._cancelling.send()
            while self._arrived and len(self._open) < _PREFETCH:
                self._read(self._arrived.popleft())
            if self._open:
                try:
                    self._recording.record(list(self._open), self._settle)
                finally:
                    self._cancelling.send()
            if self._arrived:
                return ZERO
            return _LOCKED if self._open else None

    def _hear(self, delivery: Delivery) -> None:
        self._arrived.append(TakenDelivery(delivery, self._log))
        self._ticker.wake()

    def _read(self, delivery: Delivery) -> None:
        opened = Opened(delivery, self._topics)
        self._open.update(dict.fromkeys(opened.heard))
        for each in opened.errors:
            self._events.tell(
                StatusRefused(
                    instance_id=None, attempt=None, worker=None, reason=str(each)
                )
            )

    def _settle(self, heard: Heard) -> None:
        del self._open[heard]
        heard.message.settle()

    def _cancel(self, event: Event) -> None:
        assert isinstance(event, InstanceCancelRequested)
        if event.worker is not None:
            claim = Claim(instance_id=event.instance_id, attempt=event.attempt)
            self._cancelling.ask(event.worker, claim, "cancelled")
            self._ticker.wake()

    def _watch_bus(self) -> None:
        since, is_up = self._away_since, self._is_up()
        now = self._clock.elapsed()
        if since is None and not is_up:
            self._away_since = now
            self._events.tell(BusAway())
        elif since is not None and is_up:
            self._away_since = None
            self._events.tell(BusBack(away=now - since))

    def _warn(self) -> Sequence[str]:
        return () if self._is_up() else (_AWAY,)

    def _is_up(self) -> bool:
        try:
            return self._bus.is_up()
        # One of somebody else's; health() asks as well, which never raises.
        except Exception:
            return False

    def _wait(self) -> None:
        # A tick under way goes to its end: its store may be closed next.
        with self._ticking:
            self._open.clear()
