"""The audit: what became of every fire time of a schedule, for a time that has passed.

It asks each trigger for its fire times, compares them with what the store has, and
gives each one verdict. It only reads.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING
from uuid import UUID

from go_scheduler.checks import check_at_least
from go_scheduler.client.backfilling import fire_times
from go_scheduler.clock import ZERO
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import duration_text, shown
from go_scheduler.models import Outcome, TaskDefinition
from go_scheduler.stores.base import Store
from go_scheduler.stores.messages import Position
from go_scheduler.triggers.base import utc
from go_scheduler.triggers.on_demand import OnDemandTrigger
from go_scheduler.triggers.times import MICROSECOND
from go_scheduler.triggers.trigger_timeouts import ask

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Set

    from go_scheduler.models import Skipped, TaskInstance

__all__ = ["AuditedDefinition", "AuditedTime", "Verdict", "audit"]


class Verdict(StrEnum):
    """What became of a fire time."""

    ON_TIME = "on time"
    """It ran, and was not late."""
    LATE = "late"
    """It ran, or runs, and began late."""
    EARLY = "early"
    """It began before its time, which must not be."""
    RETRIED = "retried"
    """It ran after a run that did not succeed, of which the beginning is not known."""
    SKIPPED = "skipped"
    """It is recorded as skipped."""
    CANCELLED = "cancelled"
    """It was cancelled."""
    FAILED = "failed"
    """It has failed for good."""
    WAITS = "waits"
    """It is to run yet, or again."""
    MISSED = "missed"
    """It has neither an instance nor a record, which must not be."""
    DOUBLED = "doubled"
    """It has more than one instance, which must not be."""
    UNEXPECTED = "unexpected"
    """It has an instance, and is no fire time of its trigger, which must not be."""
    UNKNOWN = "unknown"
    """Nothing is known of it: history may be gone, or its trigger newer."""

    @property
    def is_broken(self) -> bool:
        """Whether a promise of the scheduler is broken by it."""
        return self in _BROKEN


_BROKEN = {Verdict.EARLY, Verdict.MISSED, Verdict.DOUBLED, Verdict.UNEXPECTED}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedTime:
    """A fire time and what became of it.

    Attributes:
        at: The fire time.
        verdict: What became of it.
        late: How much later than it was to run it began; None: it has not, or nobody
            knows when.
        reason: Why, for a person to read; None: there is nothing more to say.
        instance_id: Its instance; None: it has none of its own.
    """

    at: datetime
    verdict: Verdict
    late: timedelta | None = None
    reason: str | None = None
    instance_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedDefinition:
    """A definition and its fire times within the time that is audited.

    Attributes:
        definition: The definition, as it is now.
        times: Its fire times, the earliest first.
        error: Why they are not known, such as a trigger that raises; None: they are.
    """

    definition: TaskDefinition
    times: Sequence[AuditedTime] = ()
    error: str | None = None

    @property
    def counts(self) -> Mapping[Verdict, int]:
        """How many there are of each verdict."""
        return Counter(each.verdict for each in self.times)

    @property
    def broken(self) -> Sequence[AuditedTime]:
        """Those that break a promise of the scheduler."""
        return [each for each in self.times if each.verdict.is_broken]


_PAGE = 1_000


def audit(
    store: Store,
    since: datetime,
    until: datetime | None = None,
    *,
    ids: Sequence[UUID] | None = None,
    retention: timedelta = timedelta(days=1),
    late: timedelta = timedelta(seconds=1),
) -> Iterator[AuditedDefinition]:
    """Say of every fire time that has passed what became of it.

    Definitions come one after the other, each with all of its fire times. Each costs a
    query for every thousand of its instances, and one more if a fire time has none.

    What has no fire times that anybody could name beforehand is left out: what runs on
    demand, and what counts from the end of each run. So is what has been deleted.

    When a definition was given its trigger is not kept. So fire times before the first
    that has an instance or a record are *unknown*, and so are those before the last one
    that is none of its trigger's.

    Args:
        store: Where the schedule is; it is only read.
        since: The first instant; aware.
        until: The first instant after; aware. None: the store's time, which is the
            latest.
        ids: Of these definitions alone; None: of all.
        retention: How long the schedulers keep what has ended: what is older may be
            gone, and is *unknown*.
        late: What begins so much later than it was to run is late.

    Raises:
        ConfigurationError: An argument is wrong, or nothing of the range has passed.
    """
    since = utc(since, name="since")
    check_at_least("retention", retention, ZERO)
    check_at_least("late", late, ZERO)
    now = store.now()
    end = now if until is None else min(now, utc(until, name="until"))
    if since >= end:
        raise ConfigurationError(
            f"nothing from since on has passed: since {since}, until {end}"
        )
    question = _Question(store, since, end, now - retention, late)
    for each in _definitions(store, ids):
        trigger = each.trigger
        if not (trigger.waits or isinstance(trigger, OnDemandTrigger)):
            yield question.answer(each)


def _definitions(store: Store, ids: Sequence[UUID] | None) -> Iterator[TaskDefinition]:
    after = None
    while True:
        page = store.list_definitions(ids=ids, after=after, limit=_PAGE)
        yield from page
        if len(page) < _PAGE:
            return
        after = Position.of_definition(page[-1])


@dataclass(frozen=True, slots=True)
class _Question:
    """What each definition is asked."""

    store: Store
    since: datetime
    end: datetime
    kept: datetime
    late: timedelta

    def answer(self, definition: TaskDefinition) -> AuditedDefinition:
        trigger = definition.trigger
        try:
            expected = ask(
                trigger, lambda: list(fire_times(trigger, self.since, self.end))
            )
        # Foreign code may raise anything.
        except Exception as error:
            return AuditedDefinition(definition=definition, error=shown(error))
        history = _History(self.store, definition.id, self._fired(definition))
        others = history.instances.keys() - set(expected)
        known_from = history.known_from(definition, expected, others)
        times = [
            self._expected_time(definition, at, history, known_from) for at in expected
        ]
        times += [
            self._other_time(definition, at, history.instances[at]) for at in others
        ]
        times.sort(key=lambda each: each.at)
        return AuditedDefinition(definition=definition, times=times)

    def _fired(self, definition: TaskDefinition) -> Iterator[TaskInstance]:
        since = self.since
        while True:
            page = self.store.list_fired(
                definition.id, since=since, before=self.end, limit=_PAGE
            )
            yield from page
            if len(page) < _PAGE or page[-1].fire_time is None:
                return
            since = page[-1].fire_time + MICROSECOND

    def _expected_time(
        self,
        definition: TaskDefinition,
        at: datetime,
        history: _History,
        known_from: datetime | None,
    ) -> AuditedTime:
        if at in history.instances:
            return self._of_instances(at, history.instances[at])
        reason = history.reason_of(at)
        if reason is not None:
            return AuditedTime(at=at, verdict=Verdict.SKIPPED, reason=reason)
        if definition.next_fire_time is not None and at >= definition.next_fire_time:
            return AuditedTime(
                at=at, verdict=Verdict.WAITS, reason=_unfired(definition)
            )
        if at < self.kept:
            reason = "it is older than what is kept"
        elif known_from is None or at < known_from:
            reason = "its definition may have been given its trigger later"
        else:
            return AuditedTime(
                at=at,
                verdict=Verdict.MISSED,
                reason="it has neither an instance nor a record",
            )
        return AuditedTime(at=at, verdict=Verdict.UNKNOWN, reason=reason)

    def _other_time(
        self, definition: TaskDefinition, at: datetime, found: Sequence[TaskInstance]
    ) -> AuditedTime:
        # A definition that was edited may have had another trigger.
        if definition.revision == 1 and found[0].backfilled is None:
            return AuditedTime(
                at=at,
                verdict=Verdict.UNEXPECTED,
                reason="its trigger does not fire then",
                instance_id=found[0].id,
            )
        return self._of_instances(at, found)

    def _of_instances(self, at: datetime, found: Sequence[TaskInstance]) -> AuditedTime:
        first = found[0]
        if len(found) > 1:
            return AuditedTime(
                at=at,
                verdict=Verdict.DOUBLED,
                reason=f"it has {len(found)} instances",
                instance_id=first.id,
            )
        began = self._began(first)
        late = None if began is None else began - first.execute_at
        verdict, reason = self._verdict(first, late)
        return AuditedTime(
            at=at, verdict=verdict, late=late, reason=reason, instance_id=first.id
        )

    def _began(self, instance: TaskInstance) -> datetime | None:
        """When its first run began; None: it has not run, or nobody knows."""
        if instance.runs <= 1 and instance.reopened_at is None:
            return instance.started_at
        runs = self.store.list_runs(instance.id)
        first = runs[0] if runs else None
        # Of many runs only the last are kept.
        if first is None or len(runs) < instance.runs - 1:
            return None
        return first.started_at

    def _verdict(
        self, instance: TaskInstance, late: timedelta | None
    ) -> tuple[Verdict, str | None]:
        if late is not None and late < ZERO:
            return Verdict.EARLY, f"it began {duration_text(-late)} too soon"
        if instance.outcome is Outcome.SKIPPED:
            skipped = instance.skipped
            return Verdict.SKIPPED, None if skipped is None else skipped.reason
        if instance.outcome is Outcome.CANCELLED:
            return Verdict.CANCELLED, instance.error
        if instance.outcome is Outcome.FAILED:
            return Verdict.FAILED, instance.error
        if late is not None and late > self.late:
            return Verdict.LATE, f"it began {duration_text(late)} late"
        if instance.outcome is None and instance.started_at is None:
            return Verdict.WAITS, _waiting(instance)
        if late is None:
            return Verdict.RETRIED, f"it took {instance.runs} runs"
        return Verdict.ON_TIME, None


class _History:
    """What the store has of one definition: instances by fire time, and records."""

    def __init__(self, store: Store, id: UUID, fired: Iterator[TaskInstance]) -> None:
        self._store = store
        self._id = id
        self.instances: dict[datetime, list[TaskInstance]] = defaultdict(list)
        for each in fired:
            assert each.fire_time is not None
            self.instances[each.fire_time].append(each)

    def reason_of(self, at: datetime) -> str | None:
        """Why a fire time was skipped, by the record that it is in."""
        for each in self._records:
            if each.first <= at <= each.last:
                return each.reason
        return None

    @cached_property
    def _records(self) -> Sequence[Skipped]:
        # Where every fire time has its instance they need not be read.
        found = self._store.list_unscheduled(self._id, limit=_PAGE)
        return [
            each.skipped for each in found if each.skipped is not None and not each.key
        ]

    def known_from(
        self,
        definition: TaskDefinition,
        expected: Sequence[datetime],
        others: Set[datetime],
    ) -> datetime | None:
        """From when on what is not there is missing; None: that is not known.

        Args:
            definition: The definition.
            expected: The fire times of its trigger.
            others: Other fire times that have instances.
        """
        edited = definition.revision != 1
        changed_after = max(others, default=None) if edited else None
        for at in expected:
            is_there = at in self.instances or self.reason_of(at) is not None
            if is_there and (changed_after is None or at > changed_after):
                return at
        if definition.trigger.recurring or edited or definition.completed_at is None:
            return None
        # Its only fire time has been given an instance, which is not gone yet.
        return expected[0] if expected else None


def _unfired(definition: TaskDefinition) -> str:
    if definition.paused:
        return "its definition is paused"
    return "it has not been fired yet"


def _waiting(instance: TaskInstance) -> str:
    if instance.definition.paused:
        return "its definition is paused"
    if instance.parked:
        return "another instance has to end first"
    if instance.runs:
        return f"it is to run again: {instance.error or 'its last run came to no end'}"
    return instance.given_back or "it has not begun"
