"""What the desk makes of what is said of runs, and of what it knows of them (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.models.changed import changed
from go_scheduler.running.elsewhere import Extending, Failing, Reporting, Success
from go_scheduler.running.outcomes import EndedRun
from go_scheduler.stores.messages import Claim, Renewal

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from go_scheduler.models import TaskInstance
    from go_scheduler.running.defaults import Defaults


def ended_run(
    claim: Claim, instance: TaskInstance | None, *, defaults: Defaults, now: datetime
) -> EndedRun | None:
    """What is known of a run that is over now; None: its instance is gone."""
    if instance is None:
        return None
    # When an earlier run began nobody knows any more.
    started_at = min(now, instance.started_at or now)
    if instance.attempt != claim.attempt:
        instance = changed(instance, attempt=claim.attempt)
    return EndedRun(
        claim=claim,
        instance=instance,
        started_at=started_at,
        ran_for=now - started_at,
        expire_after=defaults.expire_after_of(instance),
        retry=defaults.retry_of(instance),
        now=now,
        cancel_requested=instance.cancel_requested,
    )


def renewal_of(each: Extending | Reporting, lease: timedelta) -> Renewal:
    """What is to be written of a claim that is to hold longer.

    As of one that is handed on, though its handler may not have returned yet: nobody
    outside of its node is to shorten what that keeps.
    """
    worker, stage = None, None
    if isinstance(each, Reporting):
        worker, stage = each.worker, each.stage
    return Renewal(
        claim=each.claim,
        lease=lease,
        handed_on=True,
        worker=worker,
        stage=stage,
        progress=each.progress,
    )


def known_of(each: Success | Failing) -> TaskInstance | None:
    """What was run, unless it is to be read: only the store knows who has it."""
    if isinstance(each, Failing) and each.worker is not None:
        return None
    return each.instance


def is_others(instance: TaskInstance, failing: Failing) -> bool:
    """Whether another worker has accepted the run than the one that has failed."""
    if failing.worker is None or instance.accepted_at is None:
        return False
    return instance.worker not in (None, failing.worker)
