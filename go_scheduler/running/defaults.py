"""What holds for runs of definitions that do not say."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.policies import CatchUp, RetryPolicy

if TYPE_CHECKING:
    from go_scheduler.models import TaskInstance
    from go_scheduler.settings import Settings

GRACE = timedelta(seconds=5)
"""So long a handler has to clean up once it has been told to end."""

_GROWING = RetryPolicy()
_AFTER_EXPIRY = RetryPolicy.after_expiry()


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """The scheduler's own policies, for definitions that have none.

    Attributes:
        expire_after: How long a run may take.
        timeout: How long a handler may run before it is told to end; None: no limit.
        retry: What follows one that did not succeed; None: nobody has said.
        catch_up: What becomes of what is late.
        lease: How long a claim holds unless it is renewed.
        deletes_successes: Whether what succeeds need not be kept.
    """

    expire_after: timedelta = timedelta(minutes=5)
    timeout: timedelta | None = None
    retry: RetryPolicy | None = None
    catch_up: CatchUp = CatchUp()
    lease: timedelta = timedelta(seconds=20)
    deletes_successes: bool = False

    @classmethod
    def of(cls, settings: Settings) -> Defaults:
        """Those of a scheduler with these settings."""
        return cls(
            expire_after=settings.expire_after,
            timeout=settings.timeout,
            retry=settings.retry,
            catch_up=settings.catch_up,
            lease=settings.lease,
            deletes_successes=not settings.retention,
        )

    def expire_after_of(self, instance: TaskInstance) -> timedelta:
        """How long a run of this instance may take."""
        return instance.definition.expire_after or self.expire_after

    def timeout_of(self, instance: TaskInstance) -> timedelta | None:
        """How long a run of this instance may last before it ends; None: no limit."""
        return instance.definition.timeout or self.timeout

    def retry_of(self, instance: TaskInstance) -> RetryPolicy:
        """What follows a run of this instance that did not succeed."""
        definition = instance.definition
        said = definition.retry or self.retry
        if said is not None:
            return said
        return _GROWING if definition.expire_after is None else _AFTER_EXPIRY
