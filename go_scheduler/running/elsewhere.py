"""What is said of runs elsewhere, for the desk to record many of it at once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from go_scheduler.json import write_value
from go_scheduler.models import RESULT_LIMIT, TaskInstance
from go_scheduler.stores.messages import Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """A run that has succeeded.

    Attributes:
        claim: Its claim.
        result: What came of it, of ``result_text``; None: nothing is said of it.
        instance: What was run, as it was handed out when this run was started; None: it
            is read.
    """

    claim: Claim
    result: str | None = None
    instance: TaskInstance | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """A run that has not succeeded.

    Attributes:
        claim: Its claim.
        error: Why, for a person to read.
        retry: Whether another run may follow; if not, the instance has failed.
        retry_in: After how long one is to follow; None: that is the policy's.
        instance: As for a ``Success``.
    """

    claim: Claim
    error: str
    retry: bool = True
    retry_in: timedelta | None = None
    instance: TaskInstance | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Extending:
    """A claim that is to hold longer.

    Attributes:
        claim: The claim.
        by: How long from now, unless it does for longer already.
        instance: As for a ``Success``.
    """

    claim: Claim
    by: timedelta
    instance: TaskInstance | None = None


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
