"""The scheduler's side of a bus: publishes runs, and records what workers report."""

from __future__ import annotations

import logging
import random
import threading
from asyncio import wrap_future
from collections import defaultdict, deque
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from go_scheduler.checks import check_made, check_name, check_positive, check_type
from go_scheduler.clock import ZERO, Clock, SystemClock
from go_scheduler.dispatch.bus import (
    OPENER,
    MessageBus,
    PacedLog,
    SafeDelivery,
    Topics,
    checked_tasks,
    offered_again_after,
)
from go_scheduler.dispatch.messages.message import (
    Cancel,
    Run,
    Said,
    Status,
    read_statuses,
)
from go_scheduler.errors import (
    BusUnavailableError,
    ConfigurationError,
    StoreError,
    StoreUnavailableError,
)
from go_scheduler.events import BusAway, BusBack, InstanceCancelRequested, StatusRefused
from go_scheduler.formatting import shown
from go_scheduler.handlers.job_types import unmarked
from go_scheduler.models import Extension, Stage, TaskInstance
from go_scheduler.models.values import changed
from go_scheduler.run import Fail, GiveBack, HandedOn, run_here
from go_scheduler.running.defaults import Defaults
from go_scheduler.running.held import HeldRun
from go_scheduler.running.remote_runs import (
    Extending,
    Failing,
    HandedOut,
    RemoteRuns,
    Success,
    lets_others_run,
    progress_text,
    result_text,
    times_text,
)
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.messages import Claim
from go_scheduler.ticking.ticker import Ticker
from go_scheduler.trace_context import parted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from go_scheduler.dispatch.bus import Delivery
    from go_scheduler.events.event import Event

_LOG = logging.getLogger("go_scheduler.dispatch")
_AWAY = "the message bus cannot be reached"
_UNHEARD = (
    "this process does not receive the statuses of workers in namespace %r: unless"
    " another process does, each run will count as not accepted, and run again; enter"
    " `dispatcher.hearing(scheduler)` before the scheduler starts"
)
# The namespaces of which this process has received statuses, by any dispatcher.
_HEARD: set[str] = set()
_FIRST_DELAY, _LONGEST_DELAY = timedelta(seconds=1), timedelta(seconds=5)
# Of thousands of waiting runs only so many come back at once: a node has other work.
_APART, _LONGEST_TURN = timedelta(milliseconds=2), timedelta(minutes=1)


class Dispatcher:
    """A handler that publishes each run on a message bus, for workers to run it.

    ```python
    dispatcher = Dispatcher(open_bus("amqp://localhost"))
    scheduler = Scheduler(dispatcher, store)
    with dispatcher.hearing(scheduler):
        scheduler.run()
    ```

    For some of the tasks of a registry alone, the scheduler's handler is
    ``handlers.routed({"resize": dispatcher})``; the others run here.

    While the bus is away, a due run is given back for a few seconds at a time, and for
    up to a minute if thousands wait. This does not count as a run. It runs once the
    bus is back.
    If the bus goes away during a publish, nobody knows whether it has the message. The
    run then counts as published. If no worker accepts it in time, it runs again by its
    ``retry``.

    Args:
        bus: The bus, such as ``open_bus`` returns. You close it.
        namespace: The beginning of all topics; the same as the workers'.
        topic_per_task: Whether each task has a topic of its own in each queue, so that
            workers can choose among tasks; or the names of the tasks that have one.
        start_timeout: How long a run waits for a worker to accept it, and then how long
            until it begins; for definitions without a ``start_timeout``.
        heartbeat_timeout: How long a run that has begun may send no heartbeat, for
            definitions without a ``heartbeat_timeout``; None: its ``expire_after``.
        clock: Measures how long the bus has been away; None: the system's.

    Raises:
        ConfigurationError: An argument is wrong.
    """

    # The HTTP server shows this for each type of job.
    over_bus = True

    def __init__(
        self,
        bus: MessageBus,
        *,
        namespace: str = "go_scheduler",
        topic_per_task: bool | Collection[str] = False,
        start_timeout: timedelta = timedelta(minutes=1),
        heartbeat_timeout: timedelta | None = None,
        clock: Clock | None = None,
    ) -> None:
        check_made("bus", bus, MessageBus, opener=OPENER)
        self._bus = bus
        self._topics = Topics(namespace)
        self._apart = checked_tasks(topic_per_task)
        self._timeouts = Timeouts(
            start_timeout=start_timeout, heartbeat_timeout=heartbeat_timeout
        )
        self._clock = SystemClock() if clock is None else clock
        self._has_published = False
        self._away_since: timedelta | None = None
        self._turns = threading.Lock()
        self._last_turn = ZERO
        self._handed_out = HandedOut()

    async def __call__(self, instance: TaskInstance) -> HandedOn:
        """Publish a run, for any worker to accept."""
        if not self._bus.is_up():
            raise GiveBack(self._delay(), _AWAY)
        timeouts = self._timeouts_here()
        start_timeout = timeouts.start_timeout_of(instance)
        try:
            topic = self._topic_of(instance)
        except ConfigurationError as error:
            raise Fail(str(error)) from None
        self._tell_if_unheard()
        # First: a worker's status may arrive before this function goes on.
        self._handed_out.add(instance)
        body = _message(instance, timeouts).to_bytes()
        try:
            # The event loop publishes other runs meanwhile.
            await wrap_future(
                self._bus.publish_soon(topic, body, expires=start_timeout)
            )
        except BusUnavailableError as error:
            delay = self._delay()
            if error.unsent:
                raise GiveBack(delay, str(error)) from None
            # The bus may have the message: a second one would run beside it.
        else:
            self._away_since = None
        return HandedOn(start_timeout=start_timeout)

    @contextmanager
    def hearing(self, scheduler: Scheduler) -> Iterator[None]:
        """Receive and record the statuses that workers send, inside the ``with`` block.

        Several schedulers on one store may do it: each receives a part of the
        statuses. Give each the same dispatcher, or one with the same arguments.
        Statuses wait on the bus while nobody receives them.

        Args:
            scheduler: Its store and settings are used; it need not run.

        Raises:
            ConfigurationError: It is not a scheduler.
        """
        check_type("scheduler", scheduler, Scheduler)
        defaults = scheduler._defaults
        self._timeouts = replace(self._timeouts, defaults=defaults)
        hearing = Hearing(
            scheduler,
            self._bus,
            self._topics,
            timeouts=self._timeouts,
            handed_out=self._handed_out,
        )
        _HEARD.add(self._topics.namespace)
        with hearing.receiving():
            yield

    def _tell_if_unheard(self) -> None:
        """Warn at the first run, once, if this process does not receive statuses."""
        if not self._has_published:
            self._has_published = True
            if self._topics.namespace not in _HEARD:
                _LOG.warning(_UNHEARD, self._topics.namespace)

    def _topic_of(self, instance: TaskInstance) -> str:
        name, apart = instance.definition.name, self._apart
        is_apart = apart if isinstance(apart, bool) else name in apart
        return self._topics.runs(instance.definition.queue, name if is_apart else None)

    def _timeouts_here(self) -> Timeouts:
        """The timeouts, with the defaults of the scheduler that runs the instance."""
        run = run_here()
        if not isinstance(run, HeldRun):
            return self._timeouts
        # Its ``timeout`` does not pass before a worker begins the run.
        run.hand_on()
        defaults = replace(
            self._timeouts.defaults, expire_after=run.expire_after, timeout=run.timeout
        )
        return replace(self._timeouts, defaults=defaults)

    def _delay(self) -> timedelta:
        """How long to give a run back for: longer the longer the bus has been away.

        Many runs get different delays, so that they do not all come back at once.
        """
        now = self._clock.elapsed()
        since = self._away_since
        if since is None:
            self._away_since = since = now
        most = min(_LONGEST_DELAY, _FIRST_DELAY + (now - since))
        with self._turns:
            turn = max(self._last_turn, now + _FIRST_DELAY) + _APART
            self._last_turn = turn = min(turn, now + _LONGEST_TURN)
        return max(turn - now, _FIRST_DELAY + (most - _FIRST_DELAY) * random.random())


def _message(instance: TaskInstance, timeouts: Timeouts) -> Run:
    definition, started_at = instance.definition, instance.started_at
    payload, start_timeout = instance.payload, timeouts.start_timeout_of(instance)
    trace_context, trace_state = parted(instance.trace_context)
    return Run(
        instance_id=instance.id,
        attempt=instance.attempt,
        task=definition.name,
        queue=definition.queue,
        definition_id=definition.id,
        fire_time=instance.fire_time,
        execute_at=instance.execute_at,
        payload=None if payload is None else dict(payload),
        metadata=unmarked(instance.metadata),
        key=instance.key,
        runs=max(0, instance.runs - 1),
        start_by=None if started_at is None else started_at + start_timeout,
        heartbeat_timeout=timeouts.heartbeat_timeout_of(instance),
        timeout=timeouts.defaults.timeout_of(instance),
        trace_context=trace_context,
        trace_state=trace_state,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """The timeouts of runs whose definitions have none.

    Attributes:
        start_timeout: How long a run waits to be accepted, and then to begin.
        heartbeat_timeout: How long a run that has begun may send no heartbeat; None:
            its ``expire_after``.
        defaults: The other defaults of the scheduler.

    Raises:
        ConfigurationError: A timeout is not a timedelta above zero.
    """

    start_timeout: timedelta = timedelta(minutes=1)
    heartbeat_timeout: timedelta | None = None
    defaults: Defaults = field(default_factory=Defaults)

    def __post_init__(self) -> None:
        check_positive("start_timeout", self.start_timeout)
        if self.heartbeat_timeout is not None:
            check_positive("heartbeat_timeout", self.heartbeat_timeout)

    def start_timeout_of(self, instance: TaskInstance) -> timedelta:
        """How long a run of an instance waits to be accepted, and then to begin."""
        return instance.definition.start_timeout or self.start_timeout

    def heartbeat_timeout_of(self, instance: TaskInstance) -> timedelta:
        """How long a run of an instance may send no heartbeat."""
        return (
            instance.definition.heartbeat_timeout
            or self.heartbeat_timeout
            or self.defaults.expire_after_of(instance)
        )

    def kept(self, instance: TaskInstance, stage: Stage) -> timedelta:
        """How long a run at a stage is kept until its next status."""
        if stage is Stage.STARTED:
            return self.heartbeat_timeout_of(instance)
        return self.start_timeout_of(instance)


_MOST_CANCELLED = 1000
_CANCELLED_WITHIN = timedelta(minutes=1)
_STAGES = {
    Said.ACCEPTED: Stage.ACCEPTED,
    Said.STARTED: Stage.STARTED,
    Said.HEARTBEAT: Stage.STARTED,
    Said.PROGRESS: Stage.STARTED,
}


@dataclass(frozen=True, slots=True, eq=False)
class Heard:
    """A status that is not recorded yet.

    Attributes:
        message: The message that it came in.
        status: The status.
        claim: The run that it is about.
    """

    message: Opened
    status: Status
    claim: Claim


class Opened:
    """A message of statuses; it is acknowledged once all of them are settled.

    Args:
        delivery: The message.
        topics: The names of topics.

    Attributes:
        heard: Its statuses, in their order.
        errors: An error for each part that is not a status, or has a wrong worker.
    """

    def __init__(self, delivery: SafeDelivery, topics: Topics) -> None:
        self._delivery = delivery
        self.heard: list[Heard] = []
        self.errors: list[ConfigurationError] = []
        for each in read_statuses(delivery.body):
            try:
                if isinstance(each, ConfigurationError):
                    raise each
                check_name("worker", each.worker)
                topics.control(each.worker)
            except ConfigurationError as error:
                self.errors.append(error)
            else:
                claim = Claim(instance_id=each.instance_id, attempt=each.attempt)
                self.heard.append(Heard(self, each, claim))
        self._left = len(self.heard)
        if not self._left:
            self._close()

    def settle(self) -> None:
        """Count one of its statuses as handled."""
        self._left -= 1
        if not self._left:
            self._close()

    def _close(self) -> None:
        if self.errors:
            # An administrator may have configured a queue for rejected messages.
            self._delivery.reject(requeue=False)
        else:
            self._delivery.ack()


@dataclass(slots=True)
class Going:
    """All statuses of one run by one worker, except for those of its end.

    Attributes:
        claim: The run.
        worker: The name of the worker.
        stage: How far the run has come.
        progress: The last progress; None: there was none.
        heard: The statuses.
    """

    claim: Claim
    worker: str
    stage: Stage = Stage.ACCEPTED
    progress: object = None
    heard: list[Heard] = field(default_factory=list)

    def add(self, heard: Heard) -> None:
        """Add the next status."""
        if _STAGES[heard.status.status] is Stage.STARTED:
            self.stage = Stage.STARTED
        if heard.status.progress is not None:
            self.progress = heard.status.progress
        self.heard.append(heard)


_MOST_TOLD = 500
_UNSAID = "the worker did not say why"
_NOBODYS = (
    "the store has no such instance: it has been deleted, or a scheduler with another"
    " store publishes in the same namespace, so that each hears what is for the other"
)


_WAITS = f"{_AWAY}: what is to run over it waits"
# The most messages that wait here while the store is away; the bus keeps the others.
_PREFETCH = 1000
_LOOK_EVERY = timedelta(seconds=1)
_LOCKED = timedelta(milliseconds=200)


class Hearing:
    """Receives statuses, records many in one write, and then acknowledges them.

    While the store is away, at most a thousand messages wait here, unacknowledged. The
    others wait on the bus.

    Args:
        scheduler: Its store and settings are used.
        bus: The bus.
        topics: The names of its topics.
        timeouts: How long a run is kept after a status.
        handed_out: The instances that were published here.
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
        self._log = PacedLog(_LOG, self._clock)
        self._begun = self._clock.elapsed()
        self._timeouts = timeouts
        self._handed_out = handed_out
        # Which worker is to end which run; nothing is kept while the bus is away: the
        # next heartbeat of the run gets the same answer.
        self._cancels: deque[tuple[str, Cancel]] = deque(maxlen=_MOST_CANCELLED)
        self._new_remote = scheduler._remote_runs_maker()
        # A bus that is back delivers again; the oldest here cannot be acknowledged.
        self._arrived: deque[SafeDelivery] = deque(maxlen=_PREFETCH)
        self._open: dict[Heard, None] = {}
        self._away_since: timedelta | None = None
        self._ticking = threading.Lock()
        self._ticker = Ticker(
            "hearing",
            self.tick,
            interval=_LOOK_EVERY,
            clock=self._clock,
            events=scheduler._hub,
        )

    @contextmanager
    def receiving(self) -> Iterator[None]:
        """Receive and record within this context."""
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
            hub = self._scheduler._hub
            stack.enter_context(hub.told(self._cancel, InstanceCancelRequested))
            yield

    def tick(self) -> timedelta | None:
        """Record what has come, and cancel runs; returns how soon to be called again.

        Raises:
            StoreUnavailableError: The store is away.
        """
        with self._ticking:
            now = self._clock.elapsed()
            # Once a second, and not at each tick: each message causes a tick.
            if now >= self._begun + _LOOK_EVERY:
                self._begun = now
                self._events.begin()
            self._watch_bus()
            self._send_cancels()
            while self._arrived and len(self._open) < _PREFETCH:
                self._read(self._arrived.popleft())
            if self._open:
                try:
                    self._record(list(self._open))
                finally:
                    self._send_cancels()
            if self._arrived:
                return ZERO
            return _LOCKED if self._open else None

    def _hear(self, delivery: Delivery) -> None:
        self._arrived.append(SafeDelivery(delivery, self._log))
        self._ticker.wake()

    def _read(self, delivery: SafeDelivery) -> None:
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
            self._end_run(event.worker, claim, "cancelled")
            self._ticker.wake()

    def _end_run(
        self, worker: str, claim: Claim, reason: Literal["cancelled", "lost"]
    ) -> None:
        """Have a worker told to end a run; from any thread."""
        cancel = Cancel(
            instance_id=claim.instance_id, attempt=claim.attempt, reason=reason
        )
        self._cancels.append((worker, cancel))

    def _send_cancels(self) -> None:
        """Tell workers which runs to end; it waits for the bus for some seconds."""
        cancels: set[tuple[str, Cancel]] = set()
        while self._cancels:
            cancels.add(self._cancels.popleft())
        for worker, cancel in cancels:
            if not self._bus.is_up():
                return
            topic, body = self._topics.control(worker), cancel.to_bytes()
            try:
                self._bus.publish(topic, body, expires=_CANCELLED_WITHIN, keep=False)
            except BusUnavailableError:
                return

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
        return () if self._is_up() else (_WAITS,)

    def _is_up(self) -> bool:
        try:
            return self._bus.is_up()
        # A third party's bus may raise anything, and health() never raises.
        except Exception:
            return False

    def _wait(self) -> None:
        # Wait for a tick that runs: its store may be closed next.
        with self._ticking:
            self._open.clear()

    def _record(self, statuses: Iterable[Heard]) -> None:
        """Record statuses; those that are not settled then are to be tried again.

        Args:
            statuses: In the order in which they came.

        Raises:
            StoreUnavailableError: The store is away.
        """
        going: dict[tuple[Claim, str], Going] = {}
        ended: defaultdict[Said, list[Heard]] = defaultdict(list)
        for each in statuses:
            if each.status.status in _STAGES:
                of = each.claim, each.status.worker
                going.setdefault(of, Going(*of)).add(each)
            else:
                ended[each.status.status].append(each)
        remote = self._new_remote()
        look = self._report(remote, [*going.values()])
        look |= self._complete(remote, ended[Said.SUCCEEDED])
        look |= self._fail(remote, ended[Said.FAILED])
        look |= self._release(remote, ended[Said.RELEASED])
        # An instance may be due at once: this one again, or one that waited for it.
        if look:
            self._scheduler._look_at_all()

    def _report(self, remote: RemoteRuns, going: Sequence[Going]) -> bool:
        asked: list[tuple[Going, Extending]] = []
        known = {each.claim: self._handed_out.get(each.claim) for each in going}
        others = {each.instance_id for each, instance in known.items() if not instance}
        found = remote.find_all(others)
        for each in going:
            instance = known[each.claim] or found.get(each.claim.instance_id)
            if instance is None:
                self._refuse(each.heard[-1], _NOBODYS)
                self._answer(each, Extension.LOST)
            else:
                asked.append((each, self._extending(each, instance)))
        answers = remote.extend_all([extending for _, extending in asked])
        for (each, _), answer in zip(asked, answers, strict=True):
            if each.stage is Stage.STARTED and isinstance(answer, Extension):
                self._handed_out.begin(each.claim, remote.now())
            self._answer(each, answer)
        return Extension.LOST in answers

    def _extending(self, each: Going, instance: TaskInstance) -> Extending:
        last = each.heard[-1]
        return Extending(
            claim=each.claim,
            stage=each.stage,
            worker=each.worker,
            by=self._timeouts.kept(instance, each.stage),
            instance=instance,
            progress=self._kept(last, progress_text, each.progress),
        )

    def _answer(self, each: Going, answer: Extension | StoreError) -> None:
        if answer is Extension.LOST:
            self._end_run(each.worker, each.claim, "lost")
        elif answer is Extension.STOP:
            self._end_run(each.worker, each.claim, "cancelled")
        for heard in each.heard:
            self._close(heard, answer)

    def _complete(self, remote: RemoteRuns, ended: Sequence[Heard]) -> bool:
        runs = [
            Success(
                claim=each.claim,
                result=self._kept(each, result_text, each.status.result),
                instance=self._popped(each, remote),
                client=_times(each),
            )
            for each in ended
        ]
        answers = remote.end_all(runs)
        for each, answer in zip(ended, answers, strict=True):
            self._close(each, answer)
        pairs = zip(runs, answers, strict=True)
        return any(it is True and lets_others_run(run) for run, it in pairs)

    def _popped(self, each: Heard, remote: RemoteRuns) -> TaskInstance | None:
        """The instance, if it was published here; without its time on the bus."""
        instance, status = self._handed_out.pop(each.claim), each.status
        if instance is None or instance.accepted_at is not None:
            return instance
        # The worker sent no *started*, or another process received it.
        if status.started_at is None or status.ended_at is None:
            return instance
        published, now = instance.started_at, remote.now()
        assert published is not None
        # A worker may send any times, such as a run of thousands of years.
        ran = min(status.ended_at - status.started_at, now - published)
        return changed(instance, started_at=max(published, now - max(ZERO, ran)))

    def _fail(self, remote: RemoteRuns, ended: Sequence[Heard]) -> bool:
        answers = remote.end_all([_failing(each) for each in ended])
        for each, answer in zip(ended, answers, strict=True):
            self._close(each, answer)
        return True in answers

    def _release(self, remote: RemoteRuns, ended: Sequence[Heard]) -> bool:
        released = False
        for each in ended:
            answer: bool | StoreError
            try:
                answer = self._released(remote, each)
            except StoreError as error:
                answer = error
            released |= answer is True
            self._close(each, answer)
        return released

    def _released(self, remote: RemoteRuns, each: Heard) -> bool:
        found = remote.find(each.claim)
        if found is None or found.worker not in (None, each.status.worker):
            return False
        delay = each.status.delay
        if delay is None:
            # Without a delay it would come back at once to a worker that cannot run it.
            delay = offered_again_after(each.claim.attempt)
        reason = f"worker {each.status.worker} gave it back"
        if each.status.error:
            reason += f": {each.status.error:.{_MOST_TOLD}}"
        return remote.release(each.claim, delay=delay, reason=reason)

    def _close(self, heard: Heard, answer: Extension | bool | StoreError) -> None:
        # Its row is locked, or the store went away.
        if isinstance(answer, StoreUnavailableError):
            return
        if isinstance(answer, StoreError):
            self._refuse(heard, shown(answer))
        self._settle(heard)

    def _refuse(self, heard: Heard, reason: str) -> None:
        self._events.tell(
            StatusRefused(
                instance_id=heard.claim.instance_id,
                attempt=heard.claim.attempt,
                worker=heard.status.worker,
                reason=reason,
            )
        )

    def _kept(
        self, heard: Heard, write: Callable[[object], str | None], value: object
    ) -> str | None:
        """A value of a status as the store keeps it; None if it cannot be kept."""
        try:
            return write(value)
        except ConfigurationError as error:
            self._refuse(heard, f"{error}; the rest of the status counts")
            return None


def _failing(each: Heard) -> Failing:
    status = each.status
    return Failing(
        claim=each.claim,
        error=status.error or _UNSAID,
        retry=status.retry is not False,
        retry_in=status.retry_in,
        client=_times(each),
        worker=status.worker,
    )


def _times(each: Heard) -> str | None:
    """The times by the worker's clock; None if they make no sense."""
    try:
        return times_text(each.status.started_at, each.status.ended_at)
    except ConfigurationError:
        return None
