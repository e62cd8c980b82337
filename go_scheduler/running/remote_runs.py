"""Remote runs: keeps and ends runs that are not in the hands of a node."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from go_scheduler.clock import ZERO
from go_scheduler.errors import (
    ConfigurationError,
    StoreError,
    StoreUnavailableError,
    TaskInstanceNotFoundError,
)
from go_scheduler.events import InstanceGivenBack, RunTimedOut
from go_scheduler.events.event import Event, of_instance
from go_scheduler.formatting import shown
from go_scheduler.json import NOTHING, write_instant, write_value
from go_scheduler.models import RESULT_LIMIT, Extension, Outcome, Stage, TaskInstance
from go_scheduler.models.values import changed
from go_scheduler.running import outcomes
from go_scheduler.running.calling.error_text import kept_text
from go_scheduler.running.defaults import GRACE, Defaults
from go_scheduler.running.outcomes import Decision, EndedRun, Failure, is_completed_by
from go_scheduler.running.result_writer import end_events, failure_event, trigger_event
from go_scheduler.stores.filters import Filter, Order
from go_scheduler.stores.messages import Claim, Release, Renewal
from go_scheduler.stores.rules import uses_slot
from go_scheduler.ticking.retry_later import Written, each_instance_once, write_each
from go_scheduler.triggers.base import utc

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from uuid import UUID

    from go_scheduler.running.metrics import Count
    from go_scheduler.stores.base import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """A run that has succeeded.

    Attributes:
        claim: Its claim.
        result: What came of it, of ``result_text``; None: nothing is said of it.
        instance: What was run, as it was handed out when this run was started; None: it
            is read.
        client: What whoever ran it says of when that was, of ``times_text``.
        is_signed: Whether the claim is known to have been given out. Where successes
            are deleted as they end, one whose instance is gone is taken to have been.
    """

    claim: Claim
    result: str | None = None
    instance: TaskInstance | None = None
    client: str | None = None
    is_signed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """A run that has not succeeded.

    Attributes:
        claim: Its claim.
        error: Why, for a person to read.
        retry: Whether another run may follow; if not, the instance has failed.
        retry_in: After how long one is to follow; None: that is the policy's.
        instance: As for a ``Success``.
        client: Likewise.
        worker: Who says so, on a bus: if another worker has accepted the run, it is not
            recorded. With it the ``instance`` is read. None: anybody who has the claim.
    """

    claim: Claim
    error: str
    retry: bool = True
    retry_in: timedelta | None = None
    instance: TaskInstance | None = None
    client: str | None = None
    worker: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Extending:
    """A claim that is to hold longer; on a bus also how far its run has come.

    A stage never goes back: what comes late keeps the claim, and changes nothing else.
    Whoever accepts a run first has it: to another worker it is lost.

    Attributes:
        claim: The claim.
        by: How long from now, unless it does for longer already. On a bus: it may come
            no further for so long, or be silent once it has begun.
        instance: As for a ``Success``. With a stage it is read all the same if a
            timeout may end it.
        grace: How much longer than its timeout it may hold, so that its worker asks
            once more, and is told.
        progress: How far its run has come, of ``progress_text``; None: nothing is said.
        stage: How far it has come on a bus; None: it is on none. Each heartbeat of a
            run that has begun says *started* again: it counts as begun though nothing
            else came through.
        worker: Who has it on a bus, in at most 200 characters.
    """

    claim: Claim
    by: timedelta
    instance: TaskInstance | None = None
    grace: timedelta = GRACE
    progress: str | None = None
    stage: Stage | None = None
    worker: str | None = None


def _kept_json(value: object, *, name: str) -> str | None:
    """What is said of a run as it is kept; None: nothing is.

    Args:
        value: A JSON value.
        name: What it is, for the error.

    Raises:
        ConfigurationError: It is none, of more than 64 KiB as text, or one that no
            store can keep.
    """
    if value is None:
        return None
    return write_value(value, name=name, limit=RESULT_LIMIT)


result_text = partial(_kept_json, name="result")
"""What came of a run as it is kept; None: nothing is said of it."""
progress_text = partial(_kept_json, name="progress")
"""How far a run has come as it is kept; None: nothing is said of it."""


def times_text(began: datetime | None, ended: datetime | None) -> str | None:
    """When a run was by the clock of whoever ran it, as it is kept; None: unknown.

    Args:
        began: When it began; None: that is not said.
        ended: Likewise its end.

    Raises:
        ConfigurationError: It has ended before it began, or one is out of range in UTC.
    """
    if began is None and ended is None:
        return None
    if began is not None and ended is not None and ended < began:
        raise ConfigurationError(f"ended_at is before started_at: {shown(ended)}")
    times = {"started_at": began, "ended_at": ended}
    said = {
        name: write_instant(utc(at, name=name))
        for name, at in times.items()
        if at is not None
    }
    return write_value(said, name="client", limit=RESULT_LIMIT)


_MOST_HANDED_OUT = 10_000


class HandedOut:
    """Remembers instances, so that they need not be read when they end.

    Args:
        most: How many; the oldest are forgotten.
    """

    def __init__(self, most: int = _MOST_HANDED_OUT) -> None:
        self._most = most
        self._instances: OrderedDict[Claim, TaskInstance] = OrderedDict()

    def add(self, instance: TaskInstance) -> None:
        """Remember one, without what may be large and is not needed."""
        self._instances[Claim.of(instance)] = changed(
            instance,
            definition=changed(instance.definition, metadata=NOTHING),
            payload=None,
            result=None,
            error=None,
        )
        if len(self._instances) > self._most:
            self._instances.popitem(last=False)

    def get(self, claim: Claim) -> TaskInstance | None:
        """One that goes on; None: it has to be read."""
        return self._instances.get(claim)

    def begin(self, claim: Claim, at: datetime) -> None:
        """Remember when one has begun that waited on a bus; the first time counts."""
        instance = self._instances.get(claim)
        if instance is not None and instance.accepted_at is None:
            self._instances[claim] = changed(instance, started_at=at, accepted_at=at)

    def pop(self, claim: Claim) -> TaskInstance | None:
        """One that ends now; None: it has to be read."""
        return self._instances.pop(claim, None)


def ended_run(
    claim: Claim, instance: TaskInstance, *, defaults: Defaults, now: datetime
) -> EndedRun:
    """What is known of a run that is over now."""
    # When an earlier run began nobody knows any more.
    started_at = min(now, instance.started_at or now)
    if instance.attempt != claim.attempt:
        instance = changed(instance, attempt=claim.attempt)
    return EndedRun(
        claim=claim,
        instance=instance,
        started_at=started_at,
        ran_for=now - started_at,
        defaults=defaults,
        now=now,
        cancel_requested=instance.cancel_requested,
    )


def _renewal_of(each: Extending, lease: timedelta) -> Renewal:
    # As of one that is handed on, though its handler may not have returned yet: nobody
    # outside of its node is to shorten what that keeps.
    return Renewal(
        claim=each.claim,
        lease=lease,
        handed_on=True,
        worker=each.worker,
        stage=each.stage,
        progress=each.progress,
    )


def _decide(run: EndedRun, ended: Success | Failing) -> Decision | bool:
    """What follows from an end, or the answer if nothing is to be written."""
    instance = run.instance
    if isinstance(ended, Success):
        if instance.outcome is Outcome.COMPLETED:
            return is_completed_by(instance, ended.claim)
        return outcomes.completed(run, result=ended.result)
    accepted_by = None if instance.accepted_at is None else instance.worker
    if ended.worker is not None and accepted_by not in (None, ended.worker):
        return False
    error = kept_text(ended.error)
    failure = Failure(error, is_final=not ended.retry, retry_in=ended.retry_in)
    return outcomes.raised(run, failure)


def _worker_of(ended: Success | Failing) -> str | None:
    return ended.worker if isinstance(ended, Failing) else None


def _claim_of(given: tuple[int, Success | Failing | Extending]) -> Claim:
    return given[1].claim


Came = TypeVar("Came")


def _refusal(written: Written[Any], id: UUID) -> StoreError | None:
    """Why what is to become of an instance could not be written, if it could not."""
    if id in written.busy:
        return locked(id)
    error = written.failed.get(id)
    if error is None or isinstance(error, StoreError):
        return error
    return StoreError(shown(error))


def the_one(answers: Sequence[Came | StoreError]) -> Came:
    """The answer to a batch of one; it is raised if it is an error."""
    [answer] = answers
    if isinstance(answer, StoreError):
        raise answer
    return answer


def locked(instance_id: UUID) -> StoreUnavailableError:
    """The error where another transaction has locked an instance."""
    return StoreUnavailableError(
        f"instance {instance_id}: another transaction has locked it; asking again may"
        " help"
    )


def tell_end(tell: Callable[[Event], None], run: EndedRun, decision: Decision) -> None:
    """Tell of a run whose end has been recorded, and of what follows."""
    record, instance = decision.record, run.instance
    if decision.trigger_error is not None:
        tell(trigger_event(instance.definition, decision.trigger_error))
    if record.outcome is None or record.outcome is Outcome.FAILED:
        tell(failure_event(instance, decision))
    completes = record.next_fire_time is None
    for each in end_events(
        instance, record, run.started_at, run.ran_for, completes=completes
    ):
        tell(each)


_EXTENSIONS = {None: Extension.LOST, True: Extension.STOP, False: Extension.GO_ON}


class RemoteRuns:
    """Does for runs elsewhere what a node does for its own, by the same rules.

    A run is named by its claim. Whoever shows one that is not current any more changes
    nothing, but by a success, if that is the first of its instance. What is written is
    answered at once.

    Args:
        store: Where instances are kept.
        defaults: What holds for definitions that do not say.
        tell: Told of what becomes of runs.
        count: Told of each end, as ``Metrics.ended``.
        now: The store's time, as the caller knows it; None: the store is asked.

    Attributes:
        now: Tells the store's time.
    """

    def __init__(
        self,
        store: Store,
        *,
        defaults: Defaults,
        tell: Callable[[Event], None],
        count: Count = lambda *ended: None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self._store = store
        self._defaults = defaults
        self._tell_event = tell
        self._count = count
        self.now = now or store.now

    def end(self, ended: Success | Failing) -> bool:
        """Record the end of a run.

        Returns:
            Of a success, whether it is the one that has completed the instance, now or
            before. Of a failure, whether the claim was current.

        Raises:
            StoreUnavailableError: Asking again may help.
        """
        return the_one(self.end_all([ended]))

    def end_all(
        self, ended: Sequence[Success | Failing]
    ) -> Sequence[bool | StoreError]:
        """The same of many, by one write; nothing is read of what comes with its row.

        Returns:
            As ``extend_all``.

        Raises:
            StoreUnavailableError: The store is away; some may have been recorded.
        """
        answers: dict[int, bool | StoreError] = {}
        for batch in each_instance_once([*enumerate(ended)], _claim_of):
            now = self.now()
            # Of what has a worker on a bus only the store knows who has it.
            known = {
                each.claim.instance_id: each.instance
                for _, each in batch
                if each.instance is not None and _worker_of(each) is None
            }
            ids = {each.claim.instance_id for _, each in batch}
            known.update(self.find_all(ids - known.keys()))
            decided: dict[int, tuple[EndedRun, Decision]] = {}
            for number, each in batch:
                instance = known.get(each.claim.instance_id)
                if instance is None:
                    answers[number] = self._lost(each)
                    continue
                run = ended_run(each.claim, instance, defaults=self._defaults, now=now)
                decision = _decide(run._replace(client=each.client), each)
                if isinstance(decision, bool):
                    answers[number] = decision
                else:
                    decided[number] = run, decision
            records = [decision.record for _, decision in decided.values()]
            written = write_each(records, self._store.finish_instances)
            recorded = {id for each in written.done for id in each}
            for number, (run, decision) in decided.items():
                id = run.claim.instance_id
                if id in recorded:
                    definition = run.instance.definition
                    self._count(definition, decision.record.outcome, run.ran_for)
                    tell_end(self._tell_event, run, decision)
                    answers[number] = True
                else:
                    refusal = _refusal(written, id)
                    answers[number] = refusal or self._lost(ended[number])
        return [answers[number] for number in range(len(ended))]

    def _lost(self, each: Success | Failing) -> bool:
        """The answer to an end that was not recorded, or whose instance is gone.

        A success has been recorded if its run has completed the instance before.
        """
        if isinstance(each, Failing):
            return False
        found = self.find(each.claim)
        if found is None:
            may_be_deleted = self._defaults.deletes_successes
            return each.is_signed and may_be_deleted and each.claim.attempt == 1
        return is_completed_by(found, each.claim)

    def find(self, claim: Claim) -> TaskInstance | None:
        """The instance of a claim, whoever has it; None: it is gone."""
        try:
            return self._store.get_instance(claim.instance_id)
        except TaskInstanceNotFoundError:
            return None

    def find_all(self, ids: Collection[UUID]) -> Mapping[UUID, TaskInstance]:
        """Those of these instances that are there, by their ids."""
        if not ids:
            return {}
        found = self._store.select(Filter(ids=ids), order=Order.ID, limit=len(ids))
        return {each.id: each for each in found}

    def extend(self, extending: Extending) -> Extension:
        """Let a claim hold longer; on a bus, record how far its run has come.

        A run whose timeout has passed has failed by that: it is lost.

        Raises:
            StoreUnavailableError: Asking again may help.
        """
        return the_one(self.extend_all([extending]))

    def extend_all(
        self, extending: Sequence[Extending]
    ) -> Sequence[Extension | StoreError]:
        """The same of many, by one write.

        Returns:
            For each, in this order, what has come of it, or why nobody knows: a
            ``StoreUnavailableError`` if asking again may help.

        Raises:
            StoreUnavailableError: The store is away.
        """
        answers: dict[int, Extension | StoreError] = {}
        for batch in each_instance_once([*enumerate(extending)], _claim_of):
            ids = {each.claim.instance_id for _, each in batch if self._must_read(each)}
            found = self.find_all(ids)
            renewals: dict[int, Renewal] = {}
            timed_out: dict[int, TaskInstance] = {}
            for number, each in batch:
                id, instance = each.claim.instance_id, each.instance
                if id in ids:
                    instance = found.get(id)
                lease = self._lease_of(each, instance)
                if lease is not None:
                    renewals[number] = _renewal_of(each, lease)
                else:
                    assert instance is not None
                    timed_out[number] = instance
            answers |= self._time_out(timed_out)
            written = write_each([*renewals.values()], self._store.renew_claims)
            asked = {id: stop for each in written.done for id, stop in each.items()}
            for number, renewal in renewals.items():
                id = renewal.claim.instance_id
                answers[number] = _refusal(written, id) or _EXTENSIONS[asked.get(id)]
        return [answers[number] for number in range(len(extending))]

    def _must_read(self, each: Extending) -> bool:
        if each.instance is None:
            return True
        # Only the store knows whether, and when, it has begun.
        timeout = self._defaults.timeout_of(each.instance)
        return timeout is not None and each.stage is not None

    def _lease_of(
        self, each: Extending, instance: TaskInstance | None
    ) -> timedelta | None:
        """For how long from now a claim is to hold; None: its run has timed out.

        It is kept a little longer than it may run, so that its worker is there to be
        told. What is on a bus and has not begun cannot time out: that counts from when
        it begins.
        """
        if instance is None or instance.attempt != each.claim.attempt:
            return each.by
        timeout = self._defaults.timeout_of(instance)
        if timeout is None or instance.started_at is None:
            return each.by
        if each.stage is not None and instance.stage is not Stage.STARTED:
            begins = each.stage is Stage.STARTED
            return min(each.by, timeout + each.grace) if begins else each.by
        left = instance.started_at + timeout - self.now()
        return min(each.by, left + each.grace) if left > ZERO else None

    def _time_out(
        self, over: Mapping[int, TaskInstance]
    ) -> Mapping[int, Extension | StoreError]:
        """Record of runs that have timed out that they have failed."""
        failing = [
            Failing(
                claim=Claim.of(each),
                error=f"timed out after {self._defaults.timeout_of(each)}: it was not"
                " ended where it runs",
            )
            for each in over.values()
        ]
        found: dict[int, Extension | StoreError] = {}
        for (number, each), answer in zip(
            over.items(), self.end_all(failing), strict=True
        ):
            if answer is True:
                timeout = self._defaults.timeout_of(each)
                assert timeout is not None
                ids = of_instance(each)
                self._tell_event(RunTimedOut(**ids, timeout=timeout, ended=True))
            found[number] = answer if isinstance(answer, StoreError) else Extension.LOST
        return found

    def release(self, claim: Claim, *, delay: timedelta, reason: str) -> bool:
        """Give back what is not run after all, and count no run.

        Returns:
            Whether the claim was current.

        Raises:
            StoreUnavailableError: Asking again may help.
        """
        instance = self.find(claim)
        if instance is None:
            return False
        given_back = Release(claim=claim, delay=delay, reason=kept_text(reason))
        answer = self._store.release_instances([given_back])
        if claim.instance_id in answer.busy:
            raise locked(claim.instance_id)
        if claim.instance_id not in answer.done:
            return False
        ids = of_instance(changed(instance, attempt=claim.attempt))
        self._tell_event(InstanceGivenBack(**ids, reason=reason, delay=delay))
        return True


def lets_others_run(run: Success | Failing) -> bool:
    """Whether the end of a run may let it or another begin, or its definition go on."""
    if run.instance is None:
        return True
    definition = run.instance.definition
    return definition.trigger.waits or uses_slot(definition)
