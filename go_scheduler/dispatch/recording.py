"""Receives the statuses of workers over the bus, and records many in one write."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict, deque
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Literal, Self

from go_scheduler.checks import check_name, check_positive, check_type
from go_scheduler.clock import ZERO, Clock
from go_scheduler.dispatch.messages.message import Cancel, Said, Status, read_statuses
from go_scheduler.errors import (
    BusUnavailableError,
    ConfigurationError,
    StoreError,
    StoreUnavailableError,
)
from go_scheduler.events import BusAway, BusBack, InstanceCancelRequested, StatusRefused
from go_scheduler.events.event_bus import BoundedLog
from go_scheduler.formatting import shown
from go_scheduler.models import Extension, Stage, TaskInstance
from go_scheduler.models.values import changed
from go_scheduler.running.defaults import Defaults
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
from go_scheduler.stores.messages import Claim
from go_scheduler.ticking.ticker import Ticker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType

    from go_scheduler.dispatch.bus import Delivery, MessageBus
    from go_scheduler.events.event import Event
    from go_scheduler.scheduler import Scheduler

LONGEST_TOPIC = 255
"""The most bytes of a topic's name, in UTF-8: what AMQP allows."""
MOST_PREFETCHED = 65_535
"""The largest prefetch of a subscription: what AMQP allows."""
_ESCAPED = str.maketrans({"%": "%25", ".": "%2E", "\n": "%0A", "\r": "%0D"})


@dataclass(frozen=True, slots=True)
class Topics:
    """The names of topics.

    Attributes:
        namespace: The beginning of all topics. Schedulers that share a bus and do not
            work together need different namespaces.

    Raises:
        ConfigurationError: The namespace is no short text, has a character that cannot
            be printed, or begins with ``amq``, which brokers reserve.
    """

    namespace: str = "go_scheduler"

    def __post_init__(self) -> None:
        namespace = check_name("namespace", self.namespace)
        if not namespace.isprintable() or f"{namespace}.".startswith("amq."):
            raise ConfigurationError(
                "namespace must be of characters that can be printed, and not begin"
                f" with amq, which brokers keep for themselves: {shown(namespace)}"
            )

    def runs(self, queue: str, task: str | None = None) -> str:
        """The topic for the runs of a queue, or of one task in that queue."""
        return self._named("run", queue, *() if task is None else (task,))

    @property
    def statuses(self) -> str:
        """The topic to which workers send statuses."""
        return self._named("statuses")

    def control(self, worker: str) -> str:
        """The topic that tells one worker which runs to cancel."""
        return self._named("control", worker)

    def _named(self, *parts: str) -> str:
        # A dot within a name could make two topics equal, and RabbitMQ removes line
        # breaks from names.
        escaped = [each.translate(_ESCAPED) for each in parts]
        topic = ".".join([self.namespace, *escaped])
        return check_topic(topic)


def check_topic(topic: object) -> str:
    """Check that a bus can have a topic, and return it.

    Raises:
        ConfigurationError: It is not text, or it is empty or too long.
    """
    check_type("topic", topic, str)
    assert isinstance(topic, str)
    if not 0 < (size := len(topic.encode())) <= LONGEST_TOPIC:
        raise ConfigurationError(
            f"topic {shown(topic)} has {size} bytes, and a bus takes 1 to"
            f" {LONGEST_TOPIC}: give what it is made of shorter names"
        )
    return topic


def check_prefetch(prefetch: object) -> None:
    """Check that a prefetch is a number that a bus allows.

    Raises:
        ConfigurationError: It is not.
    """
    if type(prefetch) is not int or not 0 <= prefetch <= MOST_PREFETCHED:
        raise ConfigurationError(
            f"prefetch must be a number of 0 to {MOST_PREFETCHED}: {shown(prefetch)}"
        )


_FIRST_DELAY, _LONGEST_DELAY = timedelta(seconds=1), timedelta(minutes=1)
_MOST_DOUBLED = 6


def offered_again_after(attempt: int) -> timedelta:
    """How long nobody may claim an instance that a worker has given back."""
    return min(_LONGEST_DELAY, _FIRST_DELAY * (1 << min(attempt - 1, _MOST_DOUBLED)))


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
_EXPIRES = timedelta(minutes=1)


class Cancelling:
    """Tells workers which runs to end, cancelled or lost, as long as the bus is up.

    It keeps nothing while the bus is away: the next heartbeat of the run gets the same
    answer.

    Args:
        bus: The bus.
        topics: The names of its topics.
    """

    def __init__(self, bus: MessageBus, topics: Topics) -> None:
        self._bus = bus
        self._topics = topics
        # Each with its worker.
        self._asked: deque[tuple[str, Cancel]] = deque(maxlen=_MOST_CANCELLED)

    def ask(
        self, worker: str, claim: Claim, reason: Literal["cancelled", "lost"]
    ) -> None:
        """Note a worker and a run for the next ``send``; from any thread."""
        cancel = Cancel(
            instance_id=claim.instance_id, attempt=claim.attempt, reason=reason
        )
        self._asked.append((worker, cancel))

    def send(self) -> None:
        """Publish all that was noted; it waits for the bus for some seconds at most."""
        asked: set[tuple[str, Cancel]] = set()
        while self._asked:
            asked.add(self._asked.popleft())
        for worker, cancel in asked:
            if not self._bus.is_up():
                return
            topic = self._topics.control(worker)
            try:
                self._bus.publish(
                    topic, cancel.to_bytes(), expires=_EXPIRES, keep=False
                )
            except BusUnavailableError:
                return


_SECOND = timedelta(seconds=1)


class PacedLog:
    """A log that writes a few lines of each kind per second, and counts the others.

    Each kind has a limit of its own, so that many lines of one kind never hide a rare
    one of another.

    Args:
        log: The log to write to.
        clock: Measures seconds.
    """

    def __init__(self, log: logging.Logger, clock: Clock) -> None:
        self._log = log
        self._kinds: dict[str, BoundedLog] = {}
        self._clock = clock
        self._begun = clock.elapsed()

    def write(
        self,
        level: int,
        message: str,
        *args: object,
        error: BaseException | None = None,
    ) -> None:
        """Write a line, unless this second had enough lines of this message."""
        # Lines below the level of the log do not count.
        if not self._log.isEnabledFor(level):
            return
        now = self._clock.elapsed()
        if now >= self._begun + _SECOND:
            self._begun = now
            self.close()
        kind = self._kinds.setdefault(message, BoundedLog(self._log))
        kind.write(level, message, *args, ids={}, error=error)

    def close(self) -> None:
        """Write how many lines were left out; call it after the last line."""
        for each in list(self._kinds.values()):
            each.begin()


class SafeDelivery:
    """Wraps a delivery: if ``ack`` or ``reject`` raises, that is logged.

    The bus then delivers the message again.

    Args:
        delivery: The delivery.
        log: The log for errors.

    Raises:
        Exception: The bus raises it for the body.

    Attributes:
        body: The message.
    """

    def __init__(self, delivery: Delivery, log: PacedLog) -> None:
        self._delivery = delivery
        self._log = log
        self.body = delivery.body

    def ack(self) -> None:
        """Tell the bus that the message has been handled."""
        self._tell(self._delivery.ack)

    def reject(self, *, requeue: bool) -> None:
        """Put the message back into the queue, or drop it."""
        self._tell(partial(self._delivery.reject, requeue=requeue))

    def _tell(self, tell: Callable[[], None]) -> None:
        try:
            tell()
        # A third party's bus may raise anything.
        except Exception as error:
            text = "a message could not be acknowledged or rejected: %s"
            self._log.write(logging.ERROR, text, error, error=error)


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
                self.heard.append(self._heard(each, topics))
            except ConfigurationError as error:
                self.errors.append(error)
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

    def _heard(self, status: Status | ConfigurationError, topics: Topics) -> Heard:
        if isinstance(status, ConfigurationError):
            raise status
        check_worker(status.worker, topics)
        claim = Claim(instance_id=status.instance_id, attempt=status.attempt)
        return Heard(self, status, claim)


def check_worker(worker: str, topics: Topics) -> None:
    """Check the name of a worker.

    Raises:
        ConfigurationError: No worker can have this name.
    """
    check_name("worker", worker)
    topics.control(worker)


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


_AWAY = "the message bus cannot be reached: what is to run over it waits"
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
        self._log = PacedLog(logging.getLogger("go_scheduler.dispatch"), self._clock)
        self._begun = self._clock.elapsed()
        self._timeouts = timeouts
        self._handed_out = handed_out
        self._cancelling = Cancelling(bus, topics)
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
            self._cancelling.send()
            while self._arrived and len(self._open) < _PREFETCH:
                self._read(self._arrived.popleft())
            if self._open:
                try:
                    self._record(list(self._open))
                finally:
                    self._cancelling.send()
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
            self._cancelling.ask(each.worker, each.claim, "lost")
        elif answer is Extension.STOP:
            self._cancelling.ask(each.worker, each.claim, "cancelled")
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
