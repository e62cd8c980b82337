"""The long poll: hands runs to waiting workers, keeps their leases, takes their ends.

A worker shows for its run the token that is signed here.
"""

from __future__ import annotations

import asyncio
import binascii
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from go_scheduler.checks import check_at_least, check_number, check_positive
from go_scheduler.errors import ConfigurationError, StoreError
from go_scheduler.http.gathered import Gathered
from go_scheduler.http.limits import Waiting, too_many
from go_scheduler.http.problems import RETRY_AFTER, Problem, not_allowed, store_away
from go_scheduler.models import Extension, TaskInstance
from go_scheduler.run import HandedOn
from go_scheduler.running.calling.waiters import Waiter
from go_scheduler.running.defaults import GRACE
from go_scheduler.running.remote_runs import (
    Extending,
    Failing,
    HandedOut,
    RemoteRuns,
    Success,
    lets_others_run,
    progress_text,
    result_text,
)
from go_scheduler.settings import checked_queues
from go_scheduler.stores.messages import Claim

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
    from uuid import UUID

    from go_scheduler.http.access.caller import Caller
    from go_scheduler.json import JSON
    from go_scheduler.node import Node
    from go_scheduler.scheduler import Scheduler


SETTING = "http.work_tokens"
"""Under which name the store keeps the key."""

_ATTEMPT = 8
_MAC = 32
_LONGEST_TOKEN = 2000


class RunTokens:
    """Signs the tokens of runs, by a key that all servers of the store share.

    A token holds for one attempt of one instance, and for the caller it was made for.

    Args:
        scheduler: That of the store.
        threads: Where the key is read, once.
    """

    def __init__(self, scheduler: Scheduler, threads: Executor) -> None:
        self._scheduler = scheduler
        self._threads = threads
        self._key = b""

    async def read_key(self) -> None:
        """Have the key, without which no token is made.

        Raises:
            StoreError: The key is not known yet, and the store is away.
        """
        if not self._key:
            loop = asyncio.get_running_loop()
            key = await loop.run_in_executor(self._threads, self._read_key)
            self._key = bytes.fromhex(key)

    def make(self, instance: TaskInstance, subject: str) -> str:
        """The token of a run, for the one who runs it."""
        queue = instance.definition.queue.encode()
        says = instance.attempt.to_bytes(_ATTEMPT) + queue
        return urlsafe_b64encode(self._mac(instance.id, subject, says) + says).decode()

    async def claim(self, instance_id: UUID, token: str, caller: Caller) -> Claim:
        """What a token claims.

        Raises:
            Problem: 403, it is not theirs, or they may not work any more.
            StoreError: As ``read_key``.
        """
        await self.read_key()
        try:
            decoded = urlsafe_b64decode(token[:_LONGEST_TOKEN].encode())
        except (binascii.Error, UnicodeEncodeError):
            decoded = b""
        mac, says = decoded[:_MAC], decoded[_MAC:]
        if not hmac.compare_digest(mac, self._mac(instance_id, caller.subject, says)):
            raise not_allowed(
                "work-token",
                "the token is not that of this instance, or was given to another"
                " caller: pass it on as it came with the work",
            )
        # Its instance was in this queue when it was handed out.
        caller.check_work(says[_ATTEMPT:].decode())
        attempt = int.from_bytes(says[:_ATTEMPT])
        return Claim(instance_id=instance_id, attempt=attempt)

    def _mac(self, instance_id: UUID, subject: str, says: bytes) -> bytes:
        # The one part whose length may vary comes last, behind the length of the other.
        length = len(says).to_bytes(_ATTEMPT)
        text = instance_id.bytes + length + says + subject.encode()
        return hmac.digest(self._key, text, "sha256")

    def _read_key(self) -> str:
        store = self._scheduler._ready()
        return store.keep_setting(SETTING, secrets.token_hex(32))


def lost() -> Problem:
    """That of a run which goes on elsewhere, or whose instance has ended."""
    return Problem(
        409,
        "lost",
        "The run is lost",
        "it runs elsewhere by now, or its instance has ended: stop working on it",
    )


def ended_otherwise() -> Problem:
    """That of a success which is not the first."""
    return Problem(
        409,
        "ended",
        "It has ended otherwise",
        "another run has completed it, or it was cancelled or deleted: this success"
        " changes nothing",
    )


_TURNS = 4


class Poll(Waiter):
    """A request of a worker that waits, on the event loop in which it is made.

    Args:
        queues: For work from which queues, each once and in order.
        handed_on: What the store is told of what it is handed.
        most: How many instances it takes.
    """

    def __init__(self, queues: tuple[str, ...], handed_on: HandedOn, most: int) -> None:
        super().__init__(queues, handed_on, most)
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Have it wait no longer; from any thread."""
        # The event loop of a server that was left behind may be closed.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._woken.set)

    async def wait(self, at_most: timedelta) -> None:
        """Wait until it is woken, and no longer than this."""
        timer = self._loop.call_later(at_most.total_seconds(), self._woken.set)
        try:
            await self._woken.wait()
        finally:
            timer.cancel()
        # That somebody has hung up is known some turns of the event loop later.
        for _ in range(_TURNS):
            await asyncio.sleep(0)


@dataclass(slots=True)
class QueueSet:
    """A set of queues for which workers wait.

    Attributes:
        caller: Who has waited first.
        waiting: How many wait.
        dropping: Drops it; None: somebody waits.
    """

    caller: str
    waiting: int = 0
    dropping: asyncio.TimerHandle | None = None


class QueueSets:
    """Has a node claim for each set of queues for which somebody waits, and a while on.

    Args:
        most: How many sets there may be, as each is claimed for by itself.
        each: How many of one caller.
        idle: After so long without anybody waiting one is dropped.
    """

    def __init__(self, *, most: int, each: int, idle: timedelta) -> None:
        self._most = most
        self._each = each
        self._idle = idle
        # Of those for which nobody waits, the first has been idle for longest.
        self._all: dict[tuple[str, ...], QueueSet] = {}

    @contextmanager
    def held(self, node: Node, queues: tuple[str, ...], caller: str) -> Iterator[None]:
        """Have it claim for a set of queues, as long as this lasts at least.

        Raises:
            Problem: 429, there are too many others.
        """
        one = self._all.get(queues)
        if one is None:
            self._make_place_for(node, caller)
            one = self._all[queues] = QueueSet(caller)
            node.subscribe(queues)
        elif one.dropping is not None:
            one.dropping.cancel()
            one.dropping = None
            one.caller = caller
        one.waiting += 1
        try:
            yield
        finally:
            one.waiting -= 1
            if not one.waiting:
                self._all[queues] = self._all.pop(queues)
                loop, idle = asyncio.get_running_loop(), self._idle.total_seconds()
                one.dropping = loop.call_later(idle, self._drop, node, queues)

    def close(self) -> None:
        """Look after them no more."""
        for each in self._all.values():
            if each.dropping is not None:
                each.dropping.cancel()

    def _make_place_for(self, node: Node, caller: str) -> None:
        """If there are too many, drop one for which nobody waits.

        Raises:
            Problem: 429, somebody waits for each.
        """
        own = {q: each for q, each in self._all.items() if each.caller == caller}
        if len(own) >= self._each:
            among, who, whose = own, "workers of this caller wait", "the others"
        elif len(self._all) >= self._most:
            among, who, whose = self._all, "workers wait", "theirs"
        else:
            return
        idle = (queues for queues, each in among.items() if not each.waiting)
        if (idlest := next(idle, None)) is None:
            raise too_many(
                f"{who} for {len(among)} different sets of queues already, and the"
                f" server takes no more: wait for one of {whose}",
                self._idle,
                field="queues",
            )
        self._drop(node, idlest)

    def _drop(self, node: Node, queues: tuple[str, ...]) -> None:
        dropping = self._all.pop(queues).dropping
        if dropping is not None:
            dropping.cancel()
        node.unsubscribe(queues)


MOST_QUEUES = 64
"""So many a worker may wait for at once."""

_LEAST_WAIT = timedelta(milliseconds=100)
_LEFT_BEHIND = timedelta(seconds=30)
# In memory alone: whether the store is away.
_LOOK_EVERY = timedelta(seconds=1)
_THREADS = 8
_WRITTEN_AT_ONCE = 500

_Run = TypeVar("_Run")
_Answer = TypeVar("_Answer")


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


class LongPoll:
    """Hands work to workers elsewhere that wait for it, and takes what they report.

    One node claims for all of them, by itself for each set of queues for which any
    wait: so waiting costs the store what a node costs, however many wait. It is made
    like the one of the scheduler given. The methods are called on one event loop.

    Args:
        scheduler: Keeps and ends runs; it need not be started.
        lease: For how long a worker has what it is handed: it runs again elsewhere
            unless the worker has ended it by then, or asked for more.
        most: For how many different sets of queues workers may wait at once.
        each: For how many of them those of one caller may; None: half of them.
        idle: For so long after the last worker has left its queues are claimed from.
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
        check_number("most", most, 1)
        each = (most + 1) // 2 if each is None else each
        check_number("each", each, 1)
        check_positive("idle", idle)
        self._scheduler = scheduler
        self._lease = lease
        self._waiting = waiting or Waiting()
        self._threads = ThreadPoolExecutor(_THREADS, "go_scheduler work")
        self._tokens = RunTokens(scheduler, self._threads)
        self._new_remote = scheduler._remote_runs_maker()
        # What runs again, or lets others run, may do so at once.
        self._extending = self._gathered(
            RemoteRuns.extend_all, lambda _, answer: answer is Extension.LOST
        )
        self._ending = self._gathered(
            RemoteRuns.end_all,
            lambda run, answer: answer is True and lets_others_run(run),
        )
        self._queue_sets = QueueSets(most=most, each=each, idle=idle)
        self._handing_out: Scheduler | None = None
        self._starting: asyncio.Future[Node] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._handed_out = HandedOut()
        self._given_back: set[asyncio.Future[None]] = set()
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
        names = tuple(sorted(checked_queues([*queues])))
        if len(names) > MOST_QUEUES:
            raise ConfigurationError(
                f"queues may be {MOST_QUEUES} at most, not {len(names)}: let several"
                " workers wait, each for some of them"
            )
        handed_on = HandedOn(expire_after=self._lease, worker=worker)
        self._check_going()
        for each in names:
            caller.check_work(each)
        with self._waiting.place(caller):
            await self._tokens.read_key()
            self._check_going()
            self._loop = asyncio.get_running_loop()
            node = await self._started()
            # The server may stop during each wait.
            self._check_going()
            poll = Poll(names, handed_on, most)
            gone.add_done_callback(lambda _: poll.wake())
            with self._queue_sets.held(node, names, caller.subject):
                try:
                    await self._wait(node, poll, max(wait, _LEAST_WAIT))
                except BaseException:
                    self._give_back_all(poll.found)
                    raise
        if gone.done():
            self._give_back_all(poll.found)
            return []
        if not poll.found:
            self._check_going()
        return [self._work(each, caller) for each in poll.found]

    async def _started(self) -> Node:
        """The node at which they wait; it is started when the first of them comes."""
        if self._starting is None or (self._starting.done() and self._node is None):
            loop = asyncio.get_running_loop()
            self._handing_out = self._scheduler._handing_out()
            start = self._handing_out._started
            self._starting = loop.run_in_executor(self._threads, start)
            self._looking = self._looking or asyncio.create_task(self._look_on())
        # Others wait for it as well.
        return await asyncio.shield(self._starting)

    @property
    def _node(self) -> Node | None:
        """The node, if it has been started."""
        starting = self._starting
        if starting is None or not starting.done() or starting.exception() is not None:
            return None
        return starting.result()

    async def _wait(self, node: Node, poll: Poll, at_most: timedelta) -> None:
        """Let a worker wait; it is handed nothing once this has ended."""
        self._check_store()
        node.waiters.join(poll)
        try:
            await poll.wait(at_most)
        finally:
            node.waiters.leave(poll)
        if not poll.found:
            self._check_store()

    async def _look_on(self) -> None:
        """Let nobody wait while the store is away."""
        while True:
            await asyncio.sleep(_LOOK_EVERY.total_seconds())
            if self._is_cut_off:
                self._wake_all()

    def _wake_all(self) -> None:
        if self._node is not None:
            self._node.waiters.wake_all()

    def _check_store(self) -> None:
        if self._is_cut_off:
            raise store_away(
                "the store does not answer at the moment: come again later"
            )

    @property
    def _is_cut_off(self) -> bool:
        return self._handing_out is not None and self._handing_out._is_cut_off

    async def heartbeat(
        self, instance_id: UUID, token: str, caller: Caller, *, progress: object = None
    ) -> Extension:
        """Keep a run for another lease; see ``extend``."""
        return await self.extend(
            instance_id, token, caller, by=self._lease, progress=progress
        )

    async def extend(
        self,
        instance_id: UUID,
        token: str,
        caller: Caller,
        *,
        by: timedelta,
        progress: object = None,
    ) -> Extension:
        """Keep a run for so long from now, unless it is kept for longer already.

        Args:
            instance_id: The instance.
            token: The token of its run.
            caller: Who asks.
            by: How long.
            progress: How far it has come, a JSON value; None: as it was.

        Returns:
            Whether it is to go on, or to stop as somebody has cancelled it.

        Raises:
            ConfigurationError: The progress is too long, or no store can keep it.
            Problem: 403, the token is not theirs; 409, the run is lost.
            StoreError: The store is away.
        """
        claim = await self._tokens.claim(instance_id, token, caller)
        known, told = self._handed_out.get(claim), progress_text(progress)
        # By then its next heartbeat has come, and hears that it has timed out.
        grace = self._lease / 3 + GRACE
        run = Extending(claim=claim, by=by, instance=known, grace=grace, progress=told)
        answer = await self._extending.ask(run)
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
        claim = await self._tokens.claim(instance_id, token, caller)
        text = result_text(result)
        instance = self._handed_out.pop(claim)
        run = Success(
            claim=claim,
            result=text,
            instance=instance,
            client=client,
            is_signed=True,
        )
        if not await self._ending.ask(run):
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
        claim = await self._tokens.claim(instance_id, token, caller)
        # Its row is read: it may have been cancelled.
        self._handed_out.pop(claim)
        run = Failing(
            claim=claim, error=message, retry=retry, retry_in=retry_in, client=client
        )
        if not await self._ending.ask(run):
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
        claim = await self._tokens.claim(instance_id, token, caller)
        self._handed_out.pop(claim)
        release = partial(self._scheduler.release, delay=delay, reason=reason)
        loop = asyncio.get_running_loop()
        if not await loop.run_in_executor(
            self._threads, release, claim.instance_id, claim.attempt
        ):
            raise lost()

    def stop_taking(self) -> None:
        """From now on nobody is handed work, and nobody waits any longer.

        What workers have they may still keep and end: a server that stops calls this
        first, from any thread, and waits for them if it likes.
        """
        self._stopping = True
        # If nobody has waited yet nobody has to be told; one that is closed needs none.
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._wake_all)

    async def stop(self) -> None:
        """Stop all: what was claimed and handed to nobody is given back."""
        self.stop_taking()
        self._queue_sets.close()
        if self._looking is not None:
            self._looking.cancel()
        handing_out, self._handing_out = self._handing_out, None
        if handing_out is not None and self._starting is not None:
            # One that is just being started has to be stopped then.
            await asyncio.wait([self._starting])
            stop = partial(handing_out.stop, _LEFT_BEHIND)
            await asyncio.get_running_loop().run_in_executor(self._threads, stop)
        await asyncio.gather(*self._given_back, return_exceptions=True)
        for each in (self._extending, self._ending):
            await each.close()
        self._threads.shutdown(wait=False)

    def _check_going(self) -> None:
        if self._stopping:
            title = "The server is stopping"
            detail = "it hands out no more work: ask again in a moment"
            raise Problem(503, "stopping", title, detail, headers=RETRY_AFTER)

    def _work(self, instance: TaskInstance, caller: Caller) -> Work:
        self._handed_out.add(instance)
        token = self._tokens.make(instance, caller.subject)
        timeout = self._scheduler._defaults.timeout_of(instance)
        lease = self._lease if timeout is None else min(self._lease, timeout)
        return Work(instance, token, lease)

    def _give_back_all(self, instances: Iterable[TaskInstance]) -> None:
        """Begin to give some back; if the store is away their leases lapse."""

        def give_back(instance: TaskInstance) -> None:
            with suppress(StoreError):
                self._scheduler.release(instance.id, instance.attempt)

        loop = asyncio.get_running_loop()
        for each in instances:
            future = loop.run_in_executor(self._threads, give_back, each)
            self._given_back.add(future)
            future.add_done_callback(self._given_back.discard)

    def _gathered(
        self,
        write: Callable[[RemoteRuns, Sequence[_Run]], Sequence[_Answer | StoreError]],
        may_run: Callable[[_Run, _Answer | StoreError], bool],
    ) -> Gathered[_Run, _Answer]:
        """Gathers the writes of one kind.

        Args:
            write: Writes them.
            may_run: Whether something else may run, after this write and its answer.
        """

        def write_all(runs: Sequence[_Run]) -> Sequence[_Answer | StoreError]:
            answers = write(self._new_remote(), runs)
            if any(map(may_run, runs, answers)):
                self._scheduler._look_at_all()
            return answers

        def on_thread(
            runs: Sequence[_Run],
        ) -> Awaitable[Sequence[_Answer | StoreError]]:
            loop = asyncio.get_running_loop()
            return loop.run_in_executor(self._threads, write_all, runs)

        return Gathered(on_thread, lambda _: _WRITTEN_AT_ONCE)
