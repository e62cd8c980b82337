"""What is asked of instances: what waits, what is stuck, what failed or was skipped."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.doctor.definitions import LATE, SHOWN, labels
from go_scheduler.doctor.kinds import (
    BACKLOG,
    FAILING,
    LAPSED_CLAIM,
    MISFIRED,
    SKIPPED,
    STUCK_RUN,
)
from go_scheduler.models import State
from go_scheduler.stores.findings import well
from go_scheduler.why.words import length, summary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from go_scheduler.doctor.facts import Facts
    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.findings import Finding

_MOST = 1000
_DAY = timedelta(days=1)
_MARGIN = timedelta(minutes=1)
_LATE = ("late by ", "missed by ")


def backlog(facts: Facts) -> Iterator[Finding]:
    """What is due, and no node has taken."""
    found = facts.store.list_instances(state=State.PENDING, limit=_MOST)
    waiting: defaultdict[str, list[timedelta]] = defaultdict(list)
    for each in found:
        if each.due_at <= facts.now and not each.parked and not each.definition.paused:
            waiting[each.definition.queue].append(facts.now - each.due_at)
    more = "+" if len(found) == _MOST else ""
    for queue, ages in waiting.items():
        if max(ages) > LATE:
            yield BACKLOG.found(
                f"{len(ages):,}{more} are due in queue {queue!r}, the oldest for"
                f" {length(max(ages))}"
            )
    yield well("waiting", f"{sum(map(len, waiting.values())):,}{more} are due")


def running(facts: Facts) -> Iterator[Finding]:
    """What runs for too long, or in nobody's hands."""
    found = facts.store.list_instances(state=State.RUNNING, limit=_MOST)
    lapsed = [each for each in found if _has_lapsed(each, facts)]
    stuck = [each for each in found if _is_stuck(each, facts) and each not in lapsed]
    for each in lapsed[:SHOWN]:
        yield LAPSED_CLAIM.found(
            f"instance {each.id} of {_label(each)} is node {each.claimed_by}'s, whose"
            " claim has lapsed, and nobody has taken it over"
        )
    for each in stuck[:SHOWN]:
        assert each.started_at is not None
        yield STUCK_RUN.found(
            f"instance {each.id} of {_label(each)} has run for"
            f" {length(facts.now - each.started_at)}, past its expire_after",
            f"go_scheduler cancel {each.id}",
        )
    yield well("running", f"{len(found):,} run")


def failed(facts: Facts) -> Iterator[Finding]:
    """What has failed within the last day, by definition."""
    found = _of_last_day(facts, State.FAILED)
    for instances in _by_definition(found):
        last = instances[0]
        yield FAILING.found(
            f"{len(instances):,} of {_label(last)} failed within a day, the last by:"
            f" {summary(last.error or 'no error')}",
            f"go_scheduler retry --definition {last.definition.id}",
        )
    yield well("failed", f"{len(found):,} failed within a day")


def skipped(facts: Facts) -> Iterator[Finding]:
    """What was skipped within the last day, by definition."""
    count = 0
    for instances in _by_definition(_of_last_day(facts, State.SKIPPED)):
        records = [each.skipped for each in instances if each.skipped is not None]
        number = sum(each.count for each in records)
        count += number
        reason = records[0].reason if records else "nobody knows"
        kind = MISFIRED if _is_late(reason) else SKIPPED
        yield kind.found(
            f"{number:,} fire times of {_label(instances[0])} were skipped within a"
            f" day, the last as {reason}",
            f"go_scheduler why {instances[0].definition.id}",
        )
    yield well("missed", f"{count:,} fire times were skipped within a day")


def _of_last_day(facts: Facts, state: State) -> Sequence[TaskInstance]:
    return facts.store.list_instances(
        state=state, since=facts.now - _DAY, newest_first=True, limit=_MOST
    )


def _by_definition(found: Sequence[TaskInstance]) -> Sequence[Sequence[TaskInstance]]:
    """Those of some definitions, of those first that have most."""
    by_definition: defaultdict[object, list[TaskInstance]] = defaultdict(list)
    for each in found:
        by_definition[each.definition.id].append(each)
    return sorted(by_definition.values(), key=len, reverse=True)[:SHOWN]


def _is_late(reason: str) -> bool:
    """Whether nobody meant it to be skipped."""
    return reason.startswith(_LATE) and "; paused " not in reason


def _has_lapsed(instance: TaskInstance, facts: Facts) -> bool:
    until = instance.expires_at
    return until is not None and facts.now - until > _MARGIN


def _is_stuck(instance: TaskInstance, facts: Facts) -> bool:
    longest = instance.definition.expire_after or facts.expire_after
    return facts.now - (instance.started_at or facts.now) > longest + _MARGIN


def _label(instance: TaskInstance) -> str:
    return next(labels([instance.definition]))
