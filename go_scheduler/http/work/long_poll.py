"""The long poll: hands runs to waiting workers, keeps their leases, takes their ends.

A worker shows for its run the token that is signed here.
"""

from __future__ import annotations

import asyncio
import binascii
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from go_scheduler.checks import check_at_least, check_number, check_positive
from go_scheduler.errors import ConfigurationError, StoreError
from go_scheduler.http.limits import Waiting, too_many
from go_scheduler.http.problems import RETRY_AFTER, Problem, not_allowed, store_away
from go_scheduler.models import Extension
from go_scheduler.run import HandedOn
from go_scheduler.running.calling.waiters import Waiter
from go_scheduler.running.defaults import GRACE
from go_scheduler.running.remote_runs import (
    Extending,
    Failing,
    HandedOut,
    Success,
    lets_others_run,
    progress_text,
    result_text,
)
from go_scheduler.settings import checked_queues
from go_scheduler.stores.messages import Claim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Executor
    from uuid import UUID

    from go_scheduler.http.access.caller import Caller
    from go_scheduler.json import JSON
    from go_scheduler.models import TaskInstance
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


_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")

_WRITTEN_AT_ONCE = 500


class GatheredWrites(Generic[_Asked, _Answer]):
    """Writes at once while nothing is being written, else all that comes meanwhile.

    So one waits for no more than two writes, however many there are.

    Args:
        write: Writes many, in a thread, and answers each in its order; an error in the
            place of an answer is raised for that one alone.
        threads: Where it does.
    """

    def __init__(
        self,
        write: Callable[[Sequence[_Asked]], Sequence[_Answer | Exception]],
        threads: Executor,
    ) -> None:
        self._write = write
        self._threads = threads
        self._asked: list[tuple[_Asked, asyncio.Future[_Answer]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def ask(self, asked: _Asked) -> _Answer:
        """Have it written, with others; it is, even if this is cancelled.

        Raises:
            Exception: What became of it, or of the write as a whole.
        """
        future: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        self._asked.append((asked, future))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        return await future

    async def close(self) -> None:
        """Wait until all is written."""
        if self._writing is not None:
            await self._writing

    async def _write_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._asked:
            some, self._asked = (
                self._asked[:_WRITTEN_AT_ONCE],
                self._asked[_WRITTEN_AT_ONCE:],
            )
            try:
                answers: Sequence[_Answer | Exception] = await loop.run_in_executor(
                    self._threads, self._write, [asked for asked, _ in some]
                )
            except Exception as error:
                answers = [error] * len(some)
            for (_, future), answer in zip(some, answers, strict=True):
                if future.done():
                    continue  # Whoever asked is gone.
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)
        self._writing = None


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


# In memory alone: how the node is.
_LOOK_EVERY = timedelta(seconds=1)
_LEFT_BEHIND = timedelta(seconds=30)


class PollNode:
    """Lets workers wait at one node, and tells those whose store is away.

    It is started when the first of them comes.

    Args:
        scheduler: What its scheduler is like.
        threads: Where that is started and stopped.
    """

    def __init__(self, scheduler: Scheduler, threads: Executor) -> None:
        self._like = scheduler
        self._threads = threads
        self._scheduler: Scheduler | None = None
        self._started: asyncio.Future[Node] | None = None
        self._looking: asyncio.TimerHandle | None = None
        self._closed = False
        self._count = 0

    async def started(self) -> Node:
        """The node at which they wait.

        Raises:
            StoreError: It cannot be started.
        """
        started = self._started
        if started is None or (started.done() and self.running is None):
            loop = asyncio.get_running_loop()
            self._scheduler = self._like._handing_out()
            started = loop.run_in_executor(self._threads, self._scheduler._started)
            self._started = started
        # Others wait for it as well.
        return await asyncio.shield(started)

    async def wait(
        self, node: Node, poll: Poll, at_most: timedelta
    ) -> Sequence[TaskInstance]:
        """Let a worker wait; answers what it is handed, which may be nothing.

        It is handed nothing once this returns; if it is cancelled, what it was handed
        meanwhile is found in the ``poll``.

        Raises:
            Problem: 503, the store is away.
        """
        if self._closed:
            return []
        self._check()
        self._count += 1
        self._look_on()
        try:
            node.waiters.join(poll)
            try:
                await poll.wait(at_most)
            finally:
                node.waiters.leave(poll)
        finally:
            self._count -= 1
        if not poll.found:
            self._check()
        return poll.found

    def close(self) -> None:
        """Have nobody wait any longer, nor anybody who comes."""
        self._closed = True
        self._wake_all()

    async def stop(self) -> None:
        """Stop the node: what it has claimed and nobody was handed goes back."""
        self.close()
        scheduler, self._scheduler = self._scheduler, None
        if scheduler is not None and self._started is not None:
            # One that is just being started has to be stopped then.
            await asyncio.wait([self._started])
            stop = partial(scheduler.stop, _LEFT_BEHIND)
            await asyncio.get_running_loop().run_in_executor(self._threads, stop)

    @property
    def running(self) -> Node | None:
        """The node, if it has been started."""
        started = self._started
        if started is None or not started.done() or started.exception() is not None:
            return None
        return started.result()

    def _wake_all(self) -> None:
        if self.running is not None:
            self.running.waiters.wake_all()

    def _look_on(self) -> None:
        """While anybody waits, look whether the store is away."""
        if self._looking is None:
            loop, every = asyncio.get_running_loop(), _LOOK_EVERY.total_seconds()
            self._looking = loop.call_later(every, self._look)

    def _look(self) -> None:
        self._looking = None
        if self._is_cut_off:
            self._wake_all()
        elif self._count:
            self._look_on()

    def _check(self) -> None:
        if self._is_cut_off:
            raise store_away(
                "the store does not answer at the moment: come again later"
            )

    @property
    def _is_cut_off(self) -> bool:
        return self._scheduler is not None and self._scheduler._is_cut_off


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
        self._extending = GatheredWrites(self._extend_all, self._threads)
        self._completing = GatheredWrites(self._complete_all, self._threads)
        self._failing = GatheredWrites(self._fail_all, self._threads)
        self._node = PollNode(scheduler, self._threads)
        self._queue_sets = QueueSets(most=most, each=each, idle=idle)
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
            node = await self._node.started()
            poll = Poll(names, handed_on, most)
            gone.add_done_callback(lambda _: poll.wake())
            with self._queue_sets.held(node, names, caller.subject):
                try:
                    found = await self._node.wait(node, poll, max(wait, _LEAST_WAIT))
                except BaseException:
                    self._give_back_all(poll.found)
                    raise
        if gone.done():
            self._give_back_all(found)
            return []
        if not found:
            self._check_going()
        return [self._work(each, caller) for each in found]

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
        if not await self._completing.ask(run):
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
        if not await self._failing.ask(run):
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
                self._loop.call_soon_threadsafe(self._node.close)

    async def stop(self) -> None:
        """Stop all: what was claimed and handed to nobody is given back."""
        self.stop_taking()
        self._queue_sets.close()
        await self._node.stop()
        await asyncio.gather(*self._given_back, return_exceptions=True)
        for each in (self._extending, self._completing, self._failing):
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

    def _extend_all(
        self, runs: Sequence[Extending]
    ) -> Sequence[Extension | StoreError]:
        answers = self._new_remote().extend_all(runs)
        # One that has timed out may run again at once.
        if Extension.LOST in answers:
            self._scheduler._look_at_all()
        return answers

    def _complete_all(self, runs: Sequence[Success]) -> Sequence[bool | StoreError]:
        answers = self._new_remote().end_all(runs)
        ended = [run for run, it in zip(runs, answers, strict=True) if it is True]
        if any(lets_others_run(each) for each in ended):
            self._scheduler._look_at_all()
        return answers

    def _fail_all(self, runs: Sequence[Failing]) -> Sequence[bool | StoreError]:
        answers = self._new_remote().end_all(runs)
        # They may run again at once.
        if True in answers:
            self._scheduler._look_at_all()
        return answers
