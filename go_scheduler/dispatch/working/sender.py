"""Says on a bus what becomes of runs, until the bus has it."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.dispatch.messages.statuses import Said, many_to_bytes
from go_scheduler.errors import BusUnavailableError
from go_scheduler.working.pauses import Pauses

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from go_scheduler.dispatch.bus import MessageBus
    from go_scheduler.dispatch.messages.statuses import Status

_LOG = logging.getLogger("go_scheduler.dispatch.worker")
_LONGEST_PAUSE = 2.0
# While so many messages are under way, what is said waits, and then goes in one.
_MOST_MESSAGES = 4
_MOST_STATUSES, _MOST_BYTES = 100, 64 * 1024
ENDS = (Said.SUCCEEDED, Said.FAILED, Said.RELEASED)
_NEEDLESS = (Said.STARTED, Said.HEARTBEAT, Said.PROGRESS)


class What(NamedTuple):
    """What is said, of which run."""

    instance_id: UUID
    attempt: int
    said: Said


class _Saying(NamedTuple):
    what: What
    body: bytes
    then: Callable[[bool], None]
    alone: bool = False


class Sender:
    """Publishes statuses, those of one run one after the other, in their order.

    Some messages are under way at once, and each has whatever has been said meanwhile.
    What the bus does not take is published again and again, and what is said of the
    same runs waits. Of what says the same of one run only the newest waits, and of one
    that has ended only that, so that all of it together is bounded by how many runs
    there are. It is used on one event loop alone.

    Args:
        bus: The bus.
        topic: Where statuses go.
        loop: The event loop.
    """

    def __init__(
        self, bus: MessageBus, topic: str, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._bus = bus
        self._topic = topic
        self._loop = loop
        self._is_away = False
        self._pauses = Pauses(_LONGEST_PAUSE)
        self._waiting: dict[What, _Saying] = {}
        # By the number of the message they are in.
        self._under_way: dict[int, Sequence[_Saying]] = {}
        self._number = 0
        # It is about to, or waits until it tries again; or it has been closed.
        self._will_send = False

    def put(
        self, status: Status, then: Callable[[bool], None] = lambda sent: None
    ) -> None:
        """Have a status published after all that was said of its run before.

        Args:
            status: The status.
            then: Called, unless an end makes it needless: with true when the bus has
                it, with false if it never will. Of what says the same of one run while
                that waits, that of the first is called, once.
        """
        what = What(status.instance_id, status.attempt, status.status)
        saying = _Saying(what, status.to_bytes(), then)
        if (earlier := self._waiting.get(what)) is not None:
            saying = saying._replace(then=earlier.then)
        self._drop_needless(what)
        self._waiting[what] = saying
        self._send_soon()

    def close(self) -> Sequence[What]:
        """Publish nothing more; what the bus is not known to have."""
        self._will_send = True
        left = [each.what for some in self._under_way.values() for each in some]
        left.extend(self._waiting)
        self._waiting.clear()
        return left

    def _drop_needless(self, what: What) -> None:
        if what.said in ENDS:
            for each in _NEEDLESS:
                self._waiting.pop(what._replace(said=each), None)

    def _send_soon(self) -> None:
        # What is said in the same instant goes in the same message.
        if not self._will_send:
            self._will_send = True
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        self._will_send = False
        while len(self._under_way) < _MOST_MESSAGES and (some := self._next()):
            for each in some:
                del self._waiting[each.what]
            self._number += 1
            self._under_way[self._number] = some
            body = many_to_bytes([each.body for each in some])
            future = self._published(body)
            future.add_done_callback(partial(self._hear, self._number))

    def _published(self, body: bytes) -> Future[None]:
        try:
            return self._bus.publish_soon(self._topic, body)
        # A bus of somebody else's may raise here what is for its future.
        except Exception as error:
            failed: Future[None] = Future()
            failed.set_exception(error)
            return failed

    def _next(self) -> Sequence[_Saying]:
        """What goes in the next message: of runs of which nothing is under way."""
        runs = {each.what[:2] for some in self._under_way.values() for each in some}
        found: list[_Saying] = []
        size = 0
        for each in self._waiting.values():
            if each.what[:2] in runs:
                continue
            size += len(each.body)
            is_full = len(found) == _MOST_STATUSES or size > _MOST_BYTES or each.alone
            if found and is_full:
                break
            found.append(each)
            if each.alone:
                break
        return found

    def _hear(self, number: int, future: Future[None]) -> None:
        """On a thread of the bus."""
        error: BaseException | None
        # A bus of somebody else's may; ours are not cancelled by anybody.
        if future.cancelled():
            error = BusUnavailableError("the bus has cancelled it")
        else:
            error = future.exception()
        try:
            self._loop.call_soon_threadsafe(self._end, number, error)
        except RuntimeError:
            # It has been closed, and nobody asks any more.
            return

    def _end(self, number: int, error: BaseException | None) -> None:
        some = self._under_way.pop(number)
        if isinstance(error, BusUnavailableError):
            self._keep(some)
            self._pause(error)
            return
        if error is not None and len(some) > 1:
            # It may be about one of them.
            self._keep([each._replace(alone=True) for each in some])
        elif error is not None:
            text = "the bus does not take that %s, attempt %d, has %s"
            _LOG.error(text, *some[0].what, exc_info=error)
            some[0].then(False)
        else:
            self._note_return()
            for each in some:
                each.then(True)
        self._send_soon()

    def _keep(self, some: Sequence[_Saying]) -> None:
        """Have it wait again, before all that has been said since."""
        kept = {each.what: each for each in some}
        for what in kept.keys() & self._waiting.keys():
            newer = self._waiting.pop(what)
            kept[what] = newer._replace(then=kept[what].then, alone=kept[what].alone)
        self._waiting = kept | self._waiting
        for what in list(self._waiting):
            self._drop_needless(what)

    def _pause(self, error: BaseException) -> None:
        if not self._is_away:
            self._is_away = True
            _LOG.warning("statuses wait until the bus is there again: %s", error)
        if not self._will_send:
            self._will_send = True
            self._loop.call_later(self._pauses.next(), self._send)

    def _note_return(self) -> None:
        self._pauses.reset()
        if self._is_away:
            self._is_away = False
            _LOG.info("the bus takes statuses again")
