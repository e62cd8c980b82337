"""What is asked of instances: what waits, what is stuck, what failed or was skipped."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.client.offered import backlog_of
from go_scheduler.doctor.definitions import LATE, SHOWN, labels
from go_scheduler.doctor.kinds import (
    BACKLOG,
    FAILING,
    LAPSED_CLAIM,
    MISFIRED,
    SKIPPED,
    STUCK_RUN,
)
from go_scheduler.models import Outcome
from go_scheduler.models.looked_up import COUNTED, Counted
from go_scheduler.stores.findings import well
from go_scheduler.why.words import length, summary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from go_scheduler.doctor.facts import Facts
    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.findings import Finding

_MOST = 1000
_DAY = timedelta(days=1)
_MARGIN = timedelta(minutes=1)
# Each looks at ten thousand ended ones at most.
_STRETCHES = 10
_LATE = ("late by ", "missed by ")


def backlog(facts: Facts) -> Iterator[Finding]:
    """What is due, and no node has taken."""
    found = backlog_of(facts.store, COUNTED)
    for each in found:
        age = facts.now - each.oldest
        if age > LATE:
            yield BACKLOG.found(
                f"{each.due} are due in queue {each.queue!r}, the oldest for"
                f" {length(age)}"
            )
    number = sum(each.due.count for each in found)
    more = any(each.due.more for each in found)
    yield well("waiting", f"{Counted(count=number, more=more)} are due")


def running(facts: Facts) -> Iterator[Finding]:
    """What runs for too long, or in nobody's hands."""
    found = facts.store.list_claims(limit=_MOST)
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
    runs = Counted.up_to(_MOST - 1, len(found))
    yield well("running", f"{runs} run, or are about to")


def failed(facts: Facts) -> Iterator[Finding]:
    """What has failed within the last day, by definition."""
    found = _of_last_day(facts, Outcome.FAILED)
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
    for instances in _by_definition(_of_last_day(facts, Outcome.SKIPPED)):
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


def _of_last_day(facts: Facts, outcome: Outcome) -> Sequence[TaskInstance]:
    """Those that ended last, of so many that end within a day."""
    since = facts.now - _DAY
    found: list[TaskInstance] = []
    position = None
    for _ in range(_STRETCHES):
        stretch = facts.store.list_ended(outcome, before=position, limit=_MOST)
        found += [each for each in stretch.found if _end(each) >= since]
        position = stretch.next
        if position is None or len(found) >= _MOST or (position.at or since) < since:
            break
    return found


def _end(instance: TaskInstance) -> datetime:
    return instance.completed_at or instance.execute_at


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
    if instance.start_by is not None:
        # It is on a bus, and may wait there for longer.
        return False
    longest = instance.definition.expire_after or facts.expire_after
    return facts.now - (instance.started_at or facts.now) > longest + _MARGIN


def _label(instance: TaskInstance) -> str:
    return next(labels([instance.definition]))
