"""How long a run elsewhere may still be kept, as its timeout says (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.models import Stage, TaskInstance
from go_scheduler.running.elsewhere import Failing, Reporting

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from go_scheduler.running.elsewhere import Extending


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut:
    """A run elsewhere whose timeout has passed.

    Attributes:
        instance: What was run.
        timeout: How long it might run.
        failing: That it has failed.
    """

    instance: TaskInstance
    timeout: timedelta
    failing: Failing


def kept_by(
    each: Extending | Reporting,
    instance: TaskInstance | None,
    *,
    timeout: timedelta | None,
    now: Callable[[], datetime],
) -> timedelta | TimedOut:
    """For how long from now a claim is to hold, or that its run has timed out.

    It is kept a little longer than it may run, so that its worker is there to be told.
    What is on a bus and has not begun cannot time out: that counts from when it begins.

    Args:
        each: The claim, and for how long it is asked for.
        instance: What is run; None: it is gone.
        timeout: How long a run of it may last; None: there is no limit.
        now: Asks for the store's time.
    """
    if instance is None or instance.attempt != each.claim.attempt:
        return each.by
    if timeout is None or instance.started_at is None:
        return each.by
    if isinstance(each, Reporting) and instance.stage is not Stage.STARTED:
        begins = each.stage is Stage.STARTED
        return min(each.by, timeout + each.grace) if begins else each.by
    left = instance.started_at + timeout - now()
    if left > ZERO:
        return min(each.by, left + each.grace)
    error = f"timed out after {timeout}: it was not ended where it runs"
    return TimedOut(
        instance=instance,
        timeout=timeout,
        failing=Failing(claim=each.claim, error=error),
    )
