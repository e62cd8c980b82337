"""The crews of a server: who waits for which queues, and what they report."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.checks import check_at_least, check_positive, check_type
from go_scheduler.errors import ConfigurationError
from go_scheduler.http.access.waiting import Waiting
from go_scheduler.http.problems import RETRY_AFTER, Problem
from go_scheduler.http.work.crew import Waiter
from go_scheduler.http.work.ended import ended_otherwise, lost
from go_scheduler.http.work.reported import Reported
from go_scheduler.http.work.returned import Returned
from go_scheduler.http.work.roster import Roster
from go_scheduler.http.work.signing import Signing
from go_scheduler.http.work.tokens import Signed
from go_scheduler.models import Extension
from go_scheduler.run import HandedOn
from go_scheduler.running.elsewhere import Extending, Failing, Success, result_text
from go_scheduler.running.handed_out import HandedOut
from go_scheduler.running.overdue import GRACE
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from uuid import UUID

    from go_scheduler.http.access.caller import Caller
    from go_scheduler.http.work.tokens import Tokens
    from go_scheduler.json import JSON
    from go_scheduler.models import TaskInstance
    from go_scheduler.scheduler import Scheduler

MOST_QUEUES = 64
"""So many a worker may wait for at once."""

_LEAST_WAIT = timedelta(milliseconds=100)
_THREADS = 8


class Work(NamedTuple):
    """What a worker is handed.

    Attributes:
        instance: What to run.
        token: What it shows to keep and to end the run.
        lease: For how long it has it; it may not run for longer by its ``timeout``.
    """

    instance: TaskInstance
    token: str
    lease: timedelta


class Crews:
    """Hands work to workers elsewhere that wait for it, and takes what they report.

    All that wait for the same queues are a crew, for which one scheduler claims, made
    like the one given: so waiting costs the store what a node costs, however many wait.
    Its methods are called on one event loop.

    Args:
        scheduler: Keeps and ends runs; it need not be started.
        lease: For how long a worker has what it is handed: it runs again elsewhere
            unless the worker has ended it by then, or asked for more.
        most: How many crews there may be, as each is a node.
        each: How many of them for one caller; None: half of them.
        idle: After so long without anybody waiting a crew is dissolved.
        waiting: How many workers may wait; None: ``Waiting()``.

    Raises:
        ConfigurationError: An argument is wrong.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        lease: timedelta = timedelta(seconds=30),
        most: int = 32,
        each: int | None = None,
        idle: timedelta = timedelta(minutes=1),
        waiting: Waiting | None = None,
    ) -> None:
        check_at_least("lease", lease, timedelta(seconds=1))
        _check_count("most", most)
        each = (most + 1) // 2 if each is None else each
        _check_count("each", each)
        check_positive("idle", idle)
        self._scheduler = scheduler
        self._lease = lease
        self._waiting = waiting or Waiting()
        self._threads = ThreadPoolExecutor(_THREADS, "go_scheduler work")
        self._signing = Signing(scheduler, self._threads)
        self._reported = Reported(scheduler, self._threads)
        self._roster = Roster(
            scheduler,
            self._threads,
            most=most,
            each=each,
            idle=idle,
            give_back=self._give_back_soon,
        )
        self._handed_out = HandedOut()
        self._returned = Returned(scheduler, self._threads)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = False

    @property
    def waiting_workers(self) -> int:
        """How many workers wait for work."""
        return self._waiting.count

    async def take(
        self,
        queues: Iterable[str],
        *,
        most: int,
        wait: timedelta,
        worker: str | None,
        caller: Caller,
        gone: asyncio.Future[None],
    ) -> Sequence[Work]:
        """Wait for work in some queues.

        Args:
            queues: Which.
            most: How many instances to take at most; at least 1.
            wait: How long to wait for the first.
            worker: What the worker calls itself; None: it does not.
            caller: Who asks.
            gone: Done once the worker is not there any more: then it is handed nothing,
                or that is given back.

        Returns:
            What it is to run, one or several; none, if there is none in that time.

        Raises:
            ConfigurationError: A queue or the worker can have no such name.
            Problem: 403, 429, or 503: the caller may not, too many wait, or the server
                stops or its store is away.
            StoreError: The store is away.
        """
        names = tuple(sorted(set(queues)))
        if len(names) > MOST_QUEUES:
            raise ConfigurationError(
                f"queues may be {MOST_QUEUES} at most, not {len(names)}: let several"
                " workers wait, each for some of them"
            )
        handed_on = HandedOn(expire_after=self._lease, worker=worker)
        self._check_taking(names, caller)
        with self._waiting.place(caller):
            tokens = await self._signing.tokens()
            self._check_going()
            self._loop = asyncio.get_running_loop()
            served = self._roster.serve(names, caller.subject)
            waiter = Waiter(handed_on, most)
            gone.add_done_callback(lambda _: waiter.wake())
            try:
                found = await served.wait(waiter, max(wait, _LEAST_WAIT))
            except BaseException:
                self._returned.give_back_all(waiter.found)
                raise
        if gone.done():
            self._returned.give_back_all(found)
            return []
        if not found:
            self._check_going()
        return [self._work(each, tokens, caller) for each in found]

    async def heartbeat(
        self, instance_id: UUID, token: str, caller: Caller
    ) -> Extension:
        """Keep a run for another lease; see ``extend``."""
        return await self.extend(instance_id, token, caller, by=self._lease)

    async def extend(
        self, instance_id: UUID, token: str, caller: Caller, *, by: timedelta
    ) -> Extension:
        """Keep a run for so long from now, unless it is kept for longer already.

        Returns:
            Whether it is to go on, or to stop as somebody has cancelled it.

        Raises:
            Problem: 403, the token is not theirs; 409, the run is lost.
            StoreError: The store is away.
        """
        claim = await self._signing.claim(instance_id, token, caller)
        instance = self._handed_out.get(claim)
        # By then its next heartbeat has come, and hears that it has timed out.
        grace = self._lease / 3 + GRACE
        run = Extending(claim=claim, by=by, instance=instance, grace=grace)
        answer = await self._reported.extend(run)
        if answer is Extension.LOST:
            raise lost()
        return answer

    async def complete(
        self,
        instance_id: UUID,
        token: str,
        caller: Caller,
        *,
        result: JSON = None,
        client: str | None = None,
    ) -> None:
        """Record that a run has succeeded: the first success of an instance counts.

        Args:
            instance_id: Of what.
            token: Its token.
            caller: Who says so.
            result: What came of it, a JSON value.
            client: When it was by the worker's own clock, of ``times_text``.

        Raises:
            ConfigurationError: The result is none that is kept.
            Problem: 403, the token is not theirs; 409, the instance has ended
                otherwise.
            StoreError: The store is away.
        """
        claim = await self._signing.claim(instance_id, token, caller)
        text = result_text(result)
        instance = self._handed_out.pop(claim)
        run = Success(claim=claim, result=text, instance=instance, client=client)
        if not await self._reported.complete(run):
            raise ended_otherwise()

    async def error(
        self,
        instance_id: UUID,
        token: str,
        caller: Caller,
        *,
        message: str,
        retry: bool = True,
        retry_in: timedelta | None = None,
        client: str | None = None,
    ) -> None:
        """Record that a run has failed; its policy says what follows.

        Args:
            instance_id: Of what.
            token: Its token.
            caller: Who says so.
            message: What went wrong, for a person to read.
            retry: Whether it may be tried again.
            retry_in: After how long it is; None: that is the policy's.
            client: As for ``complete``.

        Raises:
            Problem: 403, the token is not theirs; 409, the run is lost.
            StoreError: The store is away.
        """
        claim = await self._signing.claim(instance_id, token, caller)
        # Its row is read: it may have been cancelled.
        self._handed_out.pop(claim)
        run = Failing(
            claim=claim, error=message, retry=retry, retry_in=retry_in, client=client
        )
        if not await self._reported.fail(run):
            raise lost()

    async def release(
        self,
        instance_id: UUID,
        token: str,
        caller: Caller,
        *,
        delay: timedelta,
        reason: str | None,
    ) -> None:
        """Give back what is not begun: it is handed to somebody else, and no run.

        Args:
            instance_id: Of what.
            token: Its token.
            caller: Who says so.
            delay: After how long.
            reason: Why.

        Raises:
            Problem: 403, the token is not theirs; 409, the run is lost.
            StoreError: The store is away.
        """
        claim = await self._signing.claim(instance_id, token, caller)
        self._handed_out.pop(claim)
        if not await self._returned.give_back(claim, delay=delay, reason=reason):
            raise lost()

    def stop_taking(self) -> None:
        """From now on nobody is handed work, and nobody waits any longer.

        What workers have they may still keep and end: a server that stops calls this
        first, from any thread, and waits for them if it likes.
        """
        self._stopping = True
        self._call_soon(self._roster.close)

    async def stop(self) -> None:
        """Stop all: what was claimed and handed to nobody is given back."""
        self.stop_taking()
        await self._roster.stop()
        await self._returned.close()
        await self._reported.close()
        self._threads.shutdown(wait=False)

    def _check_taking(self, queues: Sequence[str], caller: Caller) -> None:
        self._check_going()
        for each in queues:
            caller.check_work(each)

    def _check_going(self) -> None:
        if self._stopping:
            title = "The server is stopping"
            detail = "it hands out no more work: ask again in a moment"
            raise Problem(503, "stopping", title, detail, headers=RETRY_AFTER)

    def _work(self, instance: TaskInstance, tokens: Tokens, caller: Caller) -> Work:
        self._handed_out.add(instance)
        signed = Signed(instance.attempt, instance.definition.queue)
        token = tokens.make(instance.id, caller.subject, signed)
        timeout = self._scheduler._defaults.timeout_of(instance)
        lease = self._lease if timeout is None else min(self._lease, timeout)
        return Work(instance, token, lease)

    def _give_back_soon(self, instance: TaskInstance) -> None:
        """Give back what no worker is there for any more; from any thread."""
        self._call_soon(partial(self._returned.give_back_all, [instance]))

    def _call_soon(self, call: Callable[[], None]) -> None:
        # If nobody has waited yet nobody has to be told; one that is closed needs none.
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(call)


def _check_count(name: str, count: int) -> None:
    check_type(name, count, int)
    if count < 1:
        raise ConfigurationError(f"{name} must be at least 1: {shown(count)}")
