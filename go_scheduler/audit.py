"""The audit: what became of every fire time of a schedule, for a time that has passed.

It asks each trigger for its fire times, compares them with what the store has, and
gives each one verdict. It only reads. ``Client.audit`` says what is asked.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property, partial
from itertools import islice
from typing import TypeVar
from uuid import UUID

from go_scheduler.clock import ZERO
from go_scheduler.errors import StoreError, TaskDefinitionNotFoundError
from go_scheduler.formatting import duration_text, shown
from go_scheduler.models import Outcome, Skipped, State, TaskDefinition, TaskInstance
from go_scheduler.stores.base import Store
from go_scheduler.stores.filters import DefinitionFilter, Filter, Order, all_items
from go_scheduler.triggers.base import Trigger, checked_fire_time
from go_scheduler.triggers.previews import ask
from go_scheduler.triggers.simple import IntervalTrigger, OnDemandTrigger
from go_scheduler.triggers.times import MICROSECOND

__all__ = ["AuditedDefinition", "AuditedTime", "Verdict"]


class Verdict(StrEnum):
    """What became of a fire time."""

    ON_TIME = "on time"
    """It ran, and was not late."""
    LATE = "late"
    """It ran, or runs, and began late."""
    EARLY = "early"
    """It began, or ended, before its time, which must never happen."""
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
    """It has neither an instance nor a record, which must never happen."""
    DOUBLED = "doubled"
    """It has more than one instance, which must never happen."""
    UNEXPECTED = "unexpected"
    """It has an instance, and its trigger does not fire then. It must never happen."""
    UNKNOWN = "unknown"
    """Nothing is known of it: history may be gone, or its trigger newer."""

    @property
    def is_broken(self) -> bool:
        """Whether a promise of the scheduler is broken by it."""
        return self in _BROKEN


_Found = TypeVar("_Found")
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
        note: Why it has none that anybody could name beforehand, such as one that runs
            on demand; None: it may have.
        error: Why they are not known, such as a trigger that raises; None: they are.
    """

    definition: TaskDefinition
    times: Sequence[AuditedTime] = ()
    note: str | None = None
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What is asked of each definition.

    Attributes:
        store: Where the schedule is; it is only read.
        since: The first instant.
        until: The first instant after.
        retention: How long what has ended is kept.
        late: What begins so much later than it was to run is late.
        unchanged_since: Since when no trigger has changed; None: nobody knows.
        fire_times: What a trigger's fire times are.
        limit: The most fire times, and instances, of a definition; None: no end.
        machines: Whether reasons may name machines.
    """

    store: Store
    since: datetime
    until: datetime
    retention: timedelta
    late: timedelta
    unchanged_since: datetime | None
    fire_times: Callable[[Trigger, datetime, datetime], Iterable[datetime]]
    limit: int | None
    machines: bool

    def of(self, ids: Collection[UUID] | None) -> Iterator[AuditedDefinition]:
        """The answers, for some definitions or for all.

        Raises:
            TaskDefinitionNotFoundError: There is no definition with one of the ids.
        """
        where = DefinitionFilter(ids=ids)
        missing = {*(ids or ())}
        read = partial(self.store.select_definitions, where, limit=_PAGE)
        for each in all_items(read):
            yield from self._answers(each)
            missing.discard(each.id)
        for id in missing:
            raise TaskDefinitionNotFoundError(id)

    def _answers(self, definition: TaskDefinition) -> Iterator[AuditedDefinition]:
        """The answer about a definition; none if it is deleted meanwhile."""
        found = self._answer(definition)
        if found.broken:
            where = DefinitionFilter(ids=[definition.id])
            now = self.store.select_definitions(where, limit=1)
            if not now:
                return
            # What was read of it before its instances may be out of date.
            if now[0].revision != definition.revision:
                found = self._answer(now[0])
        yield found

    def _answer(self, definition: TaskDefinition) -> AuditedDefinition:
        trigger = definition.trigger
        if isinstance(trigger, OnDemandTrigger):
            return AuditedDefinition(definition=definition, note="it runs on demand")
        if trigger.waits:
            note = "it fires after the end of each run"
            return AuditedDefinition(definition=definition, note=note)
        try:
            expected = self._all(self.expected(trigger, self.since, self.until))
            fired = self._all(self._fired(definition))
            if expected is None or fired is None:
                many = f"more than {self.limit:,} fire times: ask for a shorter time"
                return AuditedDefinition(definition=definition, error=many)
            schedule = _Schedule(self, definition, expected, fired)
            return AuditedDefinition(definition=definition, times=schedule.audited())
        except StoreError:
            raise
        # Foreign code may raise anything.
        except Exception as error:
            return AuditedDefinition(definition=definition, error=shown(error))

    def expected(
        self, trigger: Trigger, since: datetime, until: datetime
    ) -> Iterator[datetime]:
        """The fire times of a trigger, which may be a third party's."""
        first = None
        if isinstance(trigger, IntervalTrigger) and trigger.anchor is None:
            # It counts from there, and does not fire then.
            first = trigger.anchored_at
        times = iter(self.fire_times(trigger, since, until))
        while (at := ask(trigger, lambda: next(times, None))) is not None:
            at = checked_fire_time(trigger, at)
            if since <= at < until and (first is None or at > first):
                yield at

    def _all(self, found: Iterable[_Found]) -> Sequence[_Found] | None:
        """All of these; None: there are more than the limit."""
        if self.limit is None:
            return list(found)
        first = list(islice(found, self.limit + 1))
        return None if len(first) > self.limit else first

    def _fired(self, definition: TaskDefinition) -> Iterator[TaskInstance]:
        where = Filter(
            definition_id=definition.id,
            fired_since=self.since,
            fired_before=self.until,
        )
        read = partial(self.store.select, where, order=Order.FIRE_TIME, limit=_PAGE)
        return all_items(read)


class _Schedule:
    """One definition, its fire times, and what the store has of them.

    Args:
        audit: What is asked.
        definition: The definition.
        expected: The fire times of its trigger.
        fired: Its instances that have one.
    """

    def __init__(
        self,
        audit: Audit,
        definition: TaskDefinition,
        expected: Sequence[datetime],
        fired: Sequence[TaskInstance],
    ) -> None:
        self._audit = audit
        self._definition = definition
        self._expected = expected
        self._instances: dict[datetime, list[TaskInstance]] = defaultdict(list)
        for each in fired:
            assert each.fire_time is not None
            self._instances[each.fire_time].append(each)
        self._others = self._instances.keys() - set(expected)

    def audited(self) -> Sequence[AuditedTime]:
        """Its fire times with their verdicts, the earliest first."""
        times = [self._expected_time(at) for at in self._expected]
        times += [self._other_time(at, self._instances[at]) for at in self._others]
        return sorted(times, key=lambda each: each.at)

    def _expected_time(self, at: datetime) -> AuditedTime:
        found = self._instances.get(at)
        return self._of_instances(at, found) if found else self._without_instance(at)

    def _without_instance(self, at: datetime) -> AuditedTime:
        reason = self._reason_of(at)
        next_one = self._definition.next_fire_time
        if reason is not None:
            return _time(at, Verdict.SKIPPED, reason)
        if next_one is not None and at >= next_one:
            paused = self._definition.paused
            reason = _PAUSED if paused else "it has not been fired yet"
            return _time(at, Verdict.WAITS, reason)
        if self._known_from is None or at < self._known_from:
            reason = "its definition may have been given its trigger later"
        # By now: what was kept until its instances were read is kept no longer.
        elif at < self._audit.store.now() - self._audit.retention:
            reason = "it is older than what is kept"
        else:
            reason = "it has neither an instance nor a record"
            return _time(at, Verdict.MISSED, reason)
        return _time(at, Verdict.UNKNOWN, reason)

    def _other_time(self, at: datetime, found: Sequence[TaskInstance]) -> AuditedTime:
        of_schedule = found[0].backfilled is None and not self._may_differ(at)
        if of_schedule and not self._may_be_first(at):
            reason = "its trigger does not fire then"
            return _time(at, Verdict.UNEXPECTED, reason, found[0])
        return self._of_instances(at, found)

    def _may_differ(self, at: datetime) -> bool:
        """Whether the definition may have had another trigger then."""
        unchanged = self._audit.unchanged_since
        return self._definition.revision != 1 and (unchanged is None or at < unchanged)

    def _may_be_first(self, at: datetime) -> bool:
        """Whether it may be a first fire time that is none of the later ones."""
        first_of = type(self._definition.trigger).first_fire_time
        return (
            first_of is not Trigger.first_fire_time
            and at == min(self._instances)
            and self._earlier is None
        )

    @cached_property
    def _earlier(self) -> datetime | None:
        """Its last fire time before the audited time that has an instance."""
        where = Filter(
            definition_id=self._definition.id, fired_before=self._audit.since
        )
        found = self._audit.store.select(
            where, order=Order.FIRE_TIME, descending=True, limit=1
        )
        # What was backfilled may be older than its schedule.
        fired = found and found[0].backfilled is None
        return found[0].fire_time if fired else None

    @cached_property
    def _known_from(self) -> datetime | None:
        """From when on what is not there is missing; None: that is not known."""
        if self._audit.unchanged_since is not None:
            # What fires at that very instant was there before the change, or was not.
            return self._audit.unchanged_since + MICROSECOND
        edited = self._definition.revision != 1
        changed_after = max(self._others, default=None) if edited else None
        earlier = self._earlier
        if changed_after is None and earlier is not None and self._fires(earlier):
            return self._audit.since
        for at in self._expected:
            found = self._instances.get(at, ())
            is_there = any(each.backfilled is None for each in found)
            is_there = is_there or self._reason_of(at) is not None
            if is_there and (changed_after is None or at > changed_after):
                return at
        definition = self._definition
        if definition.trigger.recurring or edited or definition.completed_at is None:
            return None
        # Its only fire time has been given an instance, which is not gone yet.
        return self._audit.since

    def _fires(self, at: datetime) -> bool:
        times = self._audit.expected(self._definition.trigger, at, at + MICROSECOND)
        return self._definition.revision == 1 or any(True for _ in times)

    def _reason_of(self, at: datetime) -> str | None:
        """Why a fire time was skipped, by the record that it is in."""
        before = bisect_right(self._records, at, key=lambda each: each.first)
        found = self._records[before - 1] if before else None
        return None if found is None or at > found.last else found.reason

    @cached_property
    def _records(self) -> Sequence[Skipped]:
        """The records of what was skipped, each of which ends later than the last."""
        # Where every fire time has its instance they are not read.
        found = sorted(self._read_records(), key=lambda each: (each.first, each.last))
        records: list[Skipped] = []
        for each in found:
            if not records or each.last > records[-1].last:
                records.append(each)
        return records

    def _read_records(self) -> Iterator[Skipped]:
        where = Filter(definition_id=self._definition.id, states=[State.SKIPPED])
        read = partial(self._audit.store.select, where, descending=True, limit=_PAGE)
        for each in all_items(read):
            if each.skipped is not None and not (each.fire_time or each.key):
                yield each.skipped

    def _of_instances(self, at: datetime, found: Sequence[TaskInstance]) -> AuditedTime:
        first = found[0]
        if len(found) > 1:
            reason = f"it has {len(found)} instances"
            return _time(at, Verdict.DOUBLED, reason, first)
        began = self._began(first)
        late = None if began is None else began - first.execute_at
        verdict, why = self._verdict(first, late)
        return replace(_time(at, verdict, why, first), late=late)

    def _began(self, instance: TaskInstance) -> datetime | None:
        """When its first run began; None: it has not run, or nobody knows."""
        if instance.runs <= 1 and instance.reopened_at is None:
            return instance.started_at
        runs = self._audit.store.list_runs(instance.id)
        first = runs[0] if runs else None
        # Of many runs only the last are kept.
        if first is None or len(runs) < instance.runs - 1:
            return None
        return first.started_at

    def _verdict(
        self, instance: TaskInstance, late: timedelta | None
    ) -> tuple[Verdict, str | None]:
        outcome = instance.outcome
        if late is not None and late < ZERO:
            return Verdict.EARLY, f"it began {duration_text(-late)} too soon"
        if outcome is Outcome.SKIPPED:
            skipped = instance.skipped
            return Verdict.SKIPPED, None if skipped is None else skipped.reason
        if outcome is Outcome.CANCELLED:
            return Verdict.CANCELLED, instance.error
        # The beginning is told by the node, the end by the store.
        if instance.completed_at and instance.completed_at < instance.execute_at:
            return Verdict.EARLY, "it ended before its time, by the store's clock"
        if outcome is Outcome.FAILED:
            return Verdict.FAILED, instance.error
        several = f"it took {instance.runs} runs" if instance.runs > 1 else None
        if late is not None and late > self._audit.late:
            began = f"it began {duration_text(late)} late"
            return Verdict.LATE, f"{began}; {several}" if several else began
        if outcome is None and instance.started_at is None:
            return Verdict.WAITS, self._waiting(instance)
        return Verdict.RETRIED if late is None else Verdict.ON_TIME, several

    def _waiting(self, instance: TaskInstance) -> str:
        if instance.definition.paused:
            return _PAUSED
        if instance.parked:
            return "another instance has to end first"
        if instance.runs:
            error = instance.error or "its last run came to no end"
            return f"it is to run again: {error}"
        # It may name the host of a bus.
        given_back = instance.given_back if self._audit.machines else None
        return given_back or "it has not begun"


_PAUSED = "its definition is paused"


def _time(
    at: datetime,
    verdict: Verdict,
    reason: str | None,
    instance: TaskInstance | None = None,
) -> AuditedTime:
    id = None if instance is None else instance.id
    return AuditedTime(at=at, verdict=verdict, reason=reason, instance_id=id)
