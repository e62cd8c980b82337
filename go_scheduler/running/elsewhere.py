"""What is said of runs elsewhere, for the desk to record many of it at once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from go_scheduler.errors import ConfigurationError
from go_scheduler.json import write_instant, write_value
from go_scheduler.models import RESULT_LIMIT, Stage, TaskInstance
from go_scheduler.running.overdue import GRACE
from go_scheduler.shown import shown
from go_scheduler.stores.messages import Claim
from go_scheduler.triggers.base import utc


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """A run that has succeeded.

    Attributes:
        claim: Its claim.
        result: What came of it, of ``result_text``; None: nothing is said of it.
        instance: What was run, as it was handed out when this run was started; None: it
            is read.
        client: What whoever ran it says of when that was, of ``times_text``.
    """

    claim: Claim
    result: str | None = None
    instance: TaskInstance | None = None
    client: str | None = None


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
    """A claim that is to hold longer.

    Attributes:
        claim: The claim.
        by: How long from now, unless it does for longer already.
        instance: As for a ``Success``.
        grace: How much longer than its timeout it may hold, so that its worker asks
            once more, and is told.
        progress: How far its run has come, of ``progress_text``; None: nothing is said.
    """

    claim: Claim
    by: timedelta
    instance: TaskInstance | None = None
    grace: timedelta = GRACE
    progress: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reporting:
    """How far a run on a bus has come, and that its worker is there.

    A stage never goes back: what comes late keeps the claim, and changes nothing else.
    Whoever accepts a run first has it: to another worker it is lost.

    Attributes:
        claim: The claim.
        stage: How far it has come. Each heartbeat of a run that has begun says
            *started* again: it counts as begun though nothing else came through.
        worker: Who has it, in at most 200 characters.
        by: How long from now it may come no further, or be silent once it has begun.
        instance: As for a ``Success``. It is read all the same if a timeout may end it.
        grace: As for an ``Extending``.
        progress: Likewise.
    """

    claim: Claim
    stage: Stage
    worker: str
    by: timedelta
    instance: TaskInstance | None = None
    grace: timedelta = GRACE
    progress: str | None = None


def result_text(value: object) -> str | None:
    """What came of a run as it is kept; None: nothing is said of it.

    Args:
        value: A JSON value.

    Raises:
        ConfigurationError: It is none, of more than 64 KiB as text, or one that no
            store can keep.
    """
    if value is None:
        return None
    return write_value(value, name="result", limit=RESULT_LIMIT)


def progress_text(value: object) -> str | None:
    """How far a run has come as it is kept; None: nothing is said of it.

    Args:
        value: A JSON value.

    Raises:
        ConfigurationError: It is none, of more than 64 KiB as text, or one that no
            store can keep.
    """
    if value is None:
        return None
    return write_value(value, name="progress", limit=RESULT_LIMIT)


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
