"""A run that a node holds, as its loops see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.stores.messages import Claim

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, timedelta
    from uuid import UUID

    from go_scheduler.models import TaskInstance


class HeldRun:
    """One run of an instance, from its claim until its outcome is recorded.

    Attributes:
        instance: What is run.
        claim: The right to it.
        expires_at: Until when that holds, as far as this node knows.
        expire_after: How long it may take.
        allowed: The same, with what its handler has asked for.
        timed_out: Whether its handler has been told to end, as its timeout has passed.
        lost: Whether the claim has passed to another run, or the instance has ended:
            of what becomes of this run only a success is recorded, if it is the first.
        joined: Whether ``complete_in`` has been called: this run succeeds by that
            transaction or not at all.
        cancel_requested: Whether somebody asked it to stop.
        due_since: The elapsed time at which it was handed over to the workers.
        called: The elapsed time at which its handler was called.
        called_at: When its handler was called, by the store's time.
        begun: Whether nothing stands between this and the call of its handler.
    """

    __slots__ = (
        "_complete",
        "_default",
        "_extended",
        "_handing_on",
        "_timeout",
        "_undecided",
        "allowed",
        "begun",
        "called",
        "called_at",
        "cancel_requested",
        "claim",
        "due_since",
        "expire_after",
        "expires_at",
        "instance",
        "joined",
        "lost",
        "timed_out",
    )

    def __init__(
        self,
        instance: TaskInstance,
        *,
        expire_after: timedelta,
        timeout: timedelta | None = None,
    ) -> None:
        assert instance.expires_at is not None
        self.instance = instance
        self.claim = Claim.of(instance)
        self._default = expire_after
        self.expire_after = instance.definition.expire_after or expire_after
        self.allowed = self.expire_after
        self._timeout = timeout
        self._handing_on = False
        self.timed_out = False
        self.expires_at: datetime = instance.expires_at
        self.lost = False
        self.joined = False
        self.cancel_requested = instance.cancel_requested
        self.due_since: timedelta | None = None
        self.called: timedelta | None = None
        self.called_at: datetime | None = None
        self.begun = False
        self._undecided = True
        self._extended: Callable[[], None] | None = None
        self._complete: Callable[[HeldRun, object], bool] | None = None

    @property
    def token(self) -> tuple[UUID, int]:
        """The instance and the attempt."""
        return self.claim.instance_id, self.claim.attempt

    @property
    def timeout(self) -> timedelta | None:
        """How long its handler may run before it is told to end; None: no limit."""
        return self.instance.definition.timeout or self._timeout

    @property
    def limit(self) -> timedelta:
        """How long after its call it has to be looked after."""
        timeout, allowed = self._timeout_here, self.allowed
        return allowed if timeout is None or timeout > allowed else timeout

    @property
    def _timeout_here(self) -> timedelta | None:
        return None if self._handing_on else self.timeout

    @property
    def settled(self) -> bool:
        """Whether its outcome has been decided, by its end or because it hung."""
        return not hasattr(self, "_undecided")

    def settle(self) -> bool:
        """Decide its outcome; false if that has been done."""
        try:
            # Atomic: of two that try, one finds it.
            del self._undecided
        except AttributeError:
            return False
        return True

    def start(self, instance: TaskInstance) -> HeldRun:
        """Note that its start has been recorded, and what the instance is by now."""
        assert instance.expires_at is not None
        self.instance = instance
        self.expires_at = instance.expires_at
        self.expire_after = instance.definition.expire_after or self._default
        self.allowed = self.expire_after
        return self

    def begin(
        self,
        elapsed: timedelta,
        now: datetime,
        extended: Callable[[], None],
        *,
        complete: Callable[[HeldRun, object], bool] | None = None,
    ) -> None:
        """Note that the handler is being called.

        Args:
            elapsed: The clock's elapsed time.
            now: The store's time.
            extended: Called when the run is allowed more time.
            complete: Records success within a transaction of the user's; false: the
                instance has ended, and not as *failed*.
        """
        self.called = elapsed
        self.called_at = max(now, self.instance.due_at)
        self._extended = extended
        self._complete = complete

    def left(self, elapsed: timedelta) -> timedelta:
        """What is left of what it may take; zero at least, all before the call."""
        if self.called is None:
            return self.allowed
        return max(ZERO, self.called + self.allowed - elapsed)

    def until_over(self, elapsed: timedelta) -> timedelta:
        """How long until its timeout or all that it may take has passed."""
        left, timeout = self.left(elapsed), self.until_timeout(elapsed)
        return left if timeout is None else min(left, timeout)

    def until_timeout(self, elapsed: timedelta) -> timedelta | None:
        """How long until its timeout; None: none counts here, or it was told to end."""
        timeout = self._timeout_here
        if timeout is None or self.timed_out:
            return None
        assert self.called is not None
        return max(ZERO, self.called + timeout - elapsed)

    def hand_on(self) -> None:
        """Have its timeout count where it is handed on to, and not here."""
        self._handing_on = True

    def time_out(self, *, grace: timedelta) -> None:
        """Note that its timeout has passed, and what its handler has left to end."""
        assert self.timeout is not None
        self.timed_out = True
        self.allowed = self.timeout + grace

    def because(self, error: str) -> str:
        """Why it failed: this, and that it was told to end if it was."""
        return f"timed out after {self.timeout}\n\n{error}" if self.timed_out else error

    def extend(self, by: timedelta) -> bool:
        """Allow it more time; false: it is decided, has timed out or lost its claim.

        Args:
            by: How much more; above zero.
        """
        if self.lost or self.settled or self.timed_out:
            return False
        self.allowed += by
        if self._extended is not None:
            self._extended()
        return True

    def complete_in(self, connection: object) -> bool:
        """Record success within a transaction of the user's; false: it is over."""
        assert self._complete is not None, "its handler has been called"
        # Before the row is locked: the keeper must not wait for it.
        self.joined = True
        return self._complete(self, connection)
