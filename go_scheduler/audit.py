"""The audit: what became of every fire time of a schedule, for a time that has passed.

It asks each trigger for its fire times, compares them with what the store has, and
gives each one verdict. It only reads. ``Client.audit`` says what is asked.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from go_scheduler.clock import ZERO
from go_scheduler.errors import TaskDefinitionNotFoundError
from go_scheduler.formatting import duration_text, shown
from go_scheduler.models import Outcome, TaskDefinition
from go_scheduler.stores.base import Store
from go_scheduler.stores.messages import Position
from go_scheduler.triggers.base import Trigger
from go_scheduler.triggers.on_demand import OnDemandTrigger
from go_scheduler.triggers.times import MICROSECOND
from go_scheduler.triggers.trigger_timeouts import ask

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Set

    from go_scheduler.models import Skipped, TaskInstance

__all__ = ["AuditedDefinition", "AuditedTime", "Verdict"]


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
        error: Why they are not known, such as a trigger that raises, or that has none
            which anybody could name beforehand; None: they are known.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What is asked of each definition.

    Attributes:
        store: Where the schedule is; it is only read.
        since: The first instant.
        until: The first instant after.
        kept: What is older may be gone.
        late: What begins so much later than it was to run is late.
        unchanged_since: Since when no trigger has changed; None: nobody knows.
        fire_times: What a trigger's fire times are.
        limit: The most fire times, and instances, of a definition; None: no end.
        machines: Whether reasons may name machines.
    """

    store: Store
    since: datetime
    until: datetime
    kept: datetime
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
        after = None
        missing = {*(ids or ())}
        while True:
            page = self.store.list_definitions(ids=ids, after=after, limit=_PAGE)
            yield from map(self._answer, page)
            missing -= {each.id for each in page}
            if len(page) < _PAGE:
                break
            after = Position.of_definition(page[-1])
        for each in missing:
            raise TaskDefinitionNotFoundError(each)

    def _answer(self, definition: TaskDefinition) -> AuditedDefinition:
        trigger = definition.trigger
        if isinstance(trigger, OnDemandTrigger):
            return _unknown(definition, "it runs on demand")
        if trigger.waits:
            return _unknown(definition, "it fires after the end of each run")
        try:
            expected = ask(trigger, lambda: self._first(self._expected(trigger)))
        # Foreign code may raise anything.
        except Exception as error:
            return _unknown(definition, shown(error))
        found = self._first(self._fired(definition))
        if expected is None or found is None:
            return _unknown(
                definition,
                f"more than {self.limit:,} fire times: ask for a shorter time",
            )
        history = _History(self.store, definition.id, found)
        others = history.instances.keys() - set(expected)
        known_from = history.known_from(definition, expected, others)
        if self.unchanged_since is not None:
            # What fires at that very instant did so before it was changed, or did not.
            known_from = self.unchanged_since + MICROSECOND
        times = [
            self._expected_time(definition, at, history, known_from) for at in expected
        ]
        times += [
            self._other_time(definition, at, history.instances[at]) for at in others
        ]
        times.sort(key=lambda each: each.at)
        return AuditedDefinition(definition=definition, times=times)

    def _expected(self, trigger: Trigger) -> Iterable[datetime]:
        return self.fire_times(trigger, self.since, self.until)

    def _first(self, found: Iterable[_Found]) -> Sequence[_Found] | None:
        """All of these; None: there are more than the limit."""
        if self.limit is None:
            return list(found)
        first = list(islice(found, self.limit + 1))
        return None if len(first) > self.limit else first

    def _fired(self, definition: TaskDefinition) -> Iterator[TaskInstance]:
        since = self.since
        while True:
            page = self.store.list_fired(
                definition.id, since=since, before=self.until, limit=_PAGE
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
        reason = history.reason_of(at)
        if at in history.instances:
            found = history.instances[at]
            # A backfill runs what was skipped; and a former trigger's record may have
            # a fire time within that is none of its own.
            if (
                reason is None
                or found[0].backfilled
                or self._may_differ(definition, at)
            ):
                return self._of_instances(at, found)
            return AuditedTime(
                at=at,
                verdict=Verdict.DOUBLED,
                reason="it has an instance, and is recorded as skipped",
                instance_id=found[0].id,
            )
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
        if found[0].backfilled is None and not self._may_differ(definition, at):
            return AuditedTime(
                at=at,
                verdict=Verdict.UNEXPECTED,
                reason="its trigger does not fire then",
                instance_id=found[0].id,
            )
        return self._of_instances(at, found)

    def _may_differ(self, definition: TaskDefinition, at: datetime) -> bool:
        """Whether the definition may have had another trigger then."""
        unchanged = self.unchanged_since
        return definition.revision != 1 and (unchanged is None or at < unchanged)

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
            return Verdict.WAITS, self._waiting(instance)
        if late is None:
            return Verdict.RETRIED, f"it took {instance.runs} runs"
        return Verdict.ON_TIME, None

    def _waiting(self, instance: TaskInstance) -> str:
        if instance.definition.paused:
            return "its definition is paused"
        if instance.parked:
            return "another instance has to end first"
        if instance.runs:
            return (
                f"it is to run again: {instance.error or 'its last run came to no end'}"
            )
        # It may name the host of a bus.
        given_back = instance.given_back if self.machines else None
        return given_back or "it has not begun"


class _History:
    """What the store has of one definition: instances by fire time, and records."""

    def __init__(self, store: Store, id: UUID, fired: Sequence[TaskInstance]) -> None:
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


def _unknown(definition: TaskDefinition, why: str) -> AuditedDefinition:
    return AuditedDefinition(definition=definition, error=why)


def _unfired(definition: TaskDefinition) -> str:
    if definition.paused:
        return "its definition is paused"
    return "it has not been fired yet"
