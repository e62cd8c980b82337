"""The audit at the end of a test: nothing was lost, doubled, early or unexpected."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from go_scheduler.client import Client
from go_scheduler.triggers import CronTrigger, ExecuteOnceTrigger, IntervalTrigger
from go_scheduler.triggers.base import fire_times
from tests.triggers.cron_oracle import MICROSECOND, matching, walk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from go_scheduler.stores.base import Store
    from go_scheduler.triggers import Trigger


def check_audit(store: Store, since: datetime | None = None) -> None:
    """Fail if a fire time was lost, doubled, early or unexpected.

    Args:
        store: Where all was scheduled.
        since: From when on; None: since a day ago.
    """
    for computed in (fire_times, slow_fire_times):
        for each in Client(store).audit(since, fire_times=computed):
            assert not each.broken, (computed, each.definition, each.broken)


def slow_fire_times(
    trigger: Trigger, since: datetime, until: datetime
) -> Iterator[datetime]:
    """The same as by the code of triggers, without it, for the commonest of them."""
    match trigger:
        case ExecuteOnceTrigger():
            if since <= trigger.fire_at < until:
                yield trigger.fire_at
        case IntervalTrigger():
            at = trigger.anchor or trigger.anchored_at
            assert at is not None
            while at < until:
                if at >= since:
                    yield at
                at += trigger.every
        case CronTrigger():
            minute, hour, *_ = trigger.expression.split()
            yield from walk(
                matching(trigger.expression),
                ZoneInfo(trigger.timezone),
                since - MICROSECOND,
                until - MICROSECOND,
                elapsed=minute.startswith("*") or hour.startswith("*"),
                gap=trigger.gap,
                overlap=trigger.overlap,
            )
        case _:
            yield from fire_times(trigger, since, until)
