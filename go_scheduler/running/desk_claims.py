"""How the desk claims what somebody else is to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.running.calling.error_text import kept_text
from go_scheduler.running.intake import Accepted, GivenBack, Refused, judge
from go_scheduler.running.reports import failure_event
from go_scheduler.stores.messages import Claim, Release

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from go_scheduler.events.event import Event
    from go_scheduler.models import TaskInstance
    from go_scheduler.running.defaults import Defaults
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Claimant


def claimed_to_run(
    store: Store,
    claimant: Claimant,
    *,
    limit: int,
    lapsed: timedelta | None,
    defaults: Defaults,
    tell: Callable[[Event], None],
) -> Sequence[TaskInstance]:
    """Claim and start what is due; end or give back what is not to be run.

    Returns:
        Those that are to be run.
    """
    claimed = store.claim_instances(
        claimant, ahead=ZERO, lead=ZERO, limit=limit, lapsed=lapsed
    )
    if not claimed:
        return []
    claimed = _in_slots(store, claimant, claimed)
    now = store.now()
    judged = [
        (each, judge(each, None, defaults=defaults, refusal=None, now=now))
        for each in claimed
    ]
    for instance, verdict in judged:
        if isinstance(verdict, Refused) and instance.silence is not None:
            tell(failure_event(instance, verdict.decision))
    # Whatever another transaction has locked lapses, and is judged anew.
    store.finish_instances(
        [each.decision.record for _, each in judged if isinstance(each, Refused)]
    )
    store.release_instances(
        [
            Release(
                claim=Claim.of(instance),
                delay=each.delay,
                reason=kept_text(each.reason),
            )
            for instance, each in judged
            if isinstance(each, GivenBack)
        ]
    )
    return [instance for instance, each in judged if isinstance(each, Accepted)]


def _in_slots(
    store: Store, claimant: Claimant, claimed: Sequence[TaskInstance]
) -> Sequence[TaskInstance]:
    """Those that have started, with those that do now; the others are parked."""
    started = [each for each in claimed if each.started_at is not None]
    if len(started) == len(claimed):
        return claimed
    claims = [Claim.of(each) for each in claimed if each.started_at is None]
    found = store.start_instances(claimant, claims).done
    return [*started, *(each for each in found if not each.parked)]
