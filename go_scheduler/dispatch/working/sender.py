"""Says on a bus what becomes of runs, until the bus has it."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.dispatch.messages.statuses import Said
from go_scheduler.errors import BusUnavailableError
from go_scheduler.working.pauses import Pauses

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from go_scheduler.clock import Clock
    from go_scheduler.dispatch.bus import MessageBus
    from go_scheduler.dispatch.messages.statuses import Status

_LOG = logging.getLogger("go_scheduler.dispatch.worker")
_LONGEST_PAUSE = 2.0
_LANES = 8
ENDS = (Said.SUCCEEDED, Said.FAILED, Said.RELEASED)
_NEEDLESS = (Said.STARTED, Said.HEARTBEAT, Said.PROGRESS)


class What(NamedTuple):
    """What is said, of which run."""

    instance_id: UUID
    attempt: int
    said: Said


class _Message(NamedTuple):
    body: bytes
    then: Callable[[bool], None]


class Sender:
    """Publishes statuses, those of one run one after the other, in their order.

    What the bus does not take is published again and again, and what comes after it
    waits. Of what says the same of one run only the newest waits, and of one that has
    ended only that, so that all of it together is bounded by how many runs there are.

    Args:
        bus: The bus.
        topic: Where statuses go.
        clock: Waits until it tries again.
    """

    def __init__(self, bus: MessageBus, topic: str, clock: Clock) -> None:
        self._bus = bus
        self._topic = topic
        self._is_away = False
        # Each waits for the broker, which makes many safe as fast as one.
        self._lanes = [_Lane(self._publish, clock) for _ in range(_LANES)]

    def start(self) -> None:
        """Begin, on threads of its own."""
        for each in self._lanes:
            each.start()

    def put(
        self, status: Status, then: Callable[[bool], None] = lambda sent: None
    ) -> None:
        """Have a status published after all that was said of its run before.

        Args:
            status: The status.
            then: Called on a thread of the sender, unless an end makes it needless:
                with true when the bus has it, with false if it never will. Of what
                says the same of one run, that of the first is called, once.
        """
        what = What(status.instance_id, status.attempt, status.status)
        lane = self._lanes[hash(status.instance_id) % _LANES]
        lane.put(what, _Message(status.to_bytes(), then))

    def close(self) -> Sequence[What]:
        """Publish nothing more; what the bus does not have."""
        for each in self._lanes:
            each.end()
        return [what for each in self._lanes for what in each.left()]

    def _publish(self, what: What, body: bytes) -> bool:
        """Publish one; whether the bus has it now, or never will.

        Raises:
            BusUnavailableError: It is away.
        """
        try:
            self._bus.publish(self._topic, body)
        except BusUnavailableError as error:
            if not self._is_away:
                self._is_away = True
                _LOG.warning("statuses wait until the bus is there again: %s", error)
            raise
        except Exception:
            text = "the bus does not take that %s, attempt %d, has %s"
            _LOG.exception(text, *what)
            return False
        if self._is_away:
            self._is_away = False
            _LOG.info("the bus takes statuses again")
        return True


class _Lane:
    """A thread that publishes one message after the other."""

    def __init__(self, publish: Callable[[What, bytes], bool], clock: Clock) -> None:
        self._publish = publish
        self._clock = clock
        self._changed = threading.Condition()
        self._waiting: dict[What, _Message] = {}
        self._closed = False
        self._pauses = Pauses(_LONGEST_PAUSE)
        self._thread = threading.Thread(
            target=self._work, name="go_scheduler worker statuses", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def put(self, what: What, message: _Message) -> None:
        with self._changed:
            if (earlier := self._waiting.get(what)) is not None:
                message = message._replace(then=earlier.then)
            if what.said in ENDS:
                for each in _NEEDLESS:
                    self._waiting.pop(what._replace(said=each), None)
            self._waiting[what] = message
            self._changed.notify()

    def end(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()

    def left(self) -> Sequence[What]:
        """What it has not published, once it has ended."""
        self._thread.join()
        return list(self._waiting)

    def _work(self) -> None:
        while (found := self._next()) is not None:
            what, message = found
            try:
                sent = self._publish(what, message.body)
            except BusUnavailableError:
                self._pause()
                continue
            self._pauses.reset()
            with self._changed:
                # A newer one may have come meanwhile, or one that makes it needless.
                is_last = self._waiting.get(what) is message
                if is_last:
                    del self._waiting[what]
            if is_last:
                message.then(sent)

    def _next(self) -> tuple[What, _Message] | None:
        with self._changed:
            while not self._closed:
                # It stays the first until the bus has it.
                for found in self._waiting.items():
                    return found
                self._changed.wait()
        return None

    def _pause(self) -> None:
        until = self._clock.elapsed() + timedelta(seconds=self._pauses.next())
        with self._changed:
            while not self._closed and self._clock.elapsed() < until:
                self._clock.wait(self._changed, until)
