"""The running instance as its handler sees it."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import TYPE_CHECKING

from go_scheduler.checks import check_positive
from go_scheduler.clock import ZERO
from go_scheduler.errors import ClaimLostError, SchedulerStateError
from go_scheduler.stores.messages import Claim

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, timedelta
    from uuid import UUID

    from go_scheduler.models import TaskInstance

_current: ContextVar[Run] = ContextVar("go_scheduler_run")


class Run:
    """One run of an instance, from its claim until its outcome is recorded.

    Handlers get theirs from ``current_run()``.

    Attributes:
        instance: What is run.
        lost: Whether the claim has passed to another run, or the instance has ended:
            of what becomes of this run only a success is recorded, if it is the first.
        joined: Whether ``complete_in`` has been called: this run succeeds by that
            transaction or not at all.
        cancel_requested: Whether somebody asked it to stop.
    """

    __slots__ = (
        "_complete",
        "_default",
        "_extended",
        "_undecided",
        "allowed",
        "called",
        "called_at",
        "cancel_requested",
        "claim",
        "expire_after",
        "expires_at",
        "instance",
        "joined",
        "lost",
        "queued",
    )

    def __init__(self, instance: TaskInstance, *, expire_after: timedelta) -> None:
        assert instance.expires_at is not None
        self.instance = instance
        self.claim = Claim(instance_id=instance.id, attempt=instance.attempt)
        self._default = expire_after
        self.expire_after = instance.definition.expire_after or expire_after
        self.allowed = self.expire_after
        self.expires_at: datetime = instance.expires_at
        self.lost = False
        self.joined = False
        self.cancel_requested = instance.cancel_requested
        # Elapsed times: handed over to the workers; called.
        self.queued: timedelta | None = None
        self.called: timedelta | None = None
        self.called_at: datetime | None = None
        self._undecided = [None]
        self._extended: Callable[[], None] | None = None
        self._complete: Callable[[Run, object], bool] | None = None

    @property
    def token(self) -> tuple[UUID, int]:
        """The fencing token, ``(instance.id, attempt)``.

        Hand it to whatever the handler writes to: of two tokens with one id, the one
        with the higher attempt is the later run.
        """
        return self.claim.instance_id, self.claim.attempt

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop: it was asked to, or is not needed any more.

        Learnt when the claim is renewed, so up to a third of the lease late.
        """
        return self.cancel_requested or self.lost

    def extend(self, by: timedelta) -> None:
        """Allow this run more time before it is presumed hung.

        Args:
            by: What is added to what is left of ``expire_after``; more than zero.

        Raises:
            ConfigurationError: ``by`` is not a timedelta above zero.
            ClaimLostError: It is too late: the instance is not this run's any more.
        """
        check_positive("by", by)
        if self.lost or self.settled:
            raise self._lost("is not this run's any more")
        self.allowed += by
        if self._extended is not None:
            self._extended()

    def complete_in(self, connection: object) -> None:
        """Record success within a transaction of the handler's own.

        What the handler writes in the transaction and the success of the run are
        committed together, or neither is: a run that is repeated finds nothing of the
        one before. For stores in an SQL database, and connections to that database.

        ```python
        def handler(instance: TaskInstance) -> None:
            with engine.begin() as connection:
                connection.execute(...)
                current_run().complete_in(connection)
        ```

        Call it last and commit soon: until the transaction ends, its lock on the
        instance makes whoever else wants to write there wait, and the claim is not
        renewed. Once it has committed nothing more is recorded for this run; what the
        handler raises after that is logged. If it has not committed when the handler
        ends, the run has failed, whether the handler returned or raised, and ``retry``
        applies. A transaction that was rolled back may be repeated, this call included.

        A run that was presumed hung, or has lost its claim to another run of the same
        instance, may call it too: whichever is the first to commit has completed the
        instance.

        Args:
            connection: A SQLAlchemy ``Session`` or ``Connection`` that is not in
                autocommit.

        Raises:
            ClaimLostError: The instance has been completed, by another run or an
                earlier call, or was cancelled or deleted; nothing was written. Let it
                roll your transaction back.
            ConfigurationError: It is no such connection, or the store takes part in no
                transactions.
            StoreUnavailableError: Repeating the transaction may help.
        """
        assert self._complete is not None, "its handler has been called"
        again = self.joined
        # Before the row is locked: the keeper must not wait for it.
        self.joined = True
        if not self._complete(self, connection):
            by = "an earlier complete_in()" if again else "another run"
            raise self._lost(f"has been completed by {by}, cancelled or deleted")

    def _lost(self, why: str) -> ClaimLostError:
        return ClaimLostError(
            f"instance {self.instance.id}, attempt {self.claim.attempt}: it {why}"
        )

    @property
    def settled(self) -> bool:
        """Whether its outcome has been decided, by its end or because it hung."""
        return not self._undecided

    def settle(self) -> bool:
        """Decide its outcome; false if that has been done."""
        try:
            # Atomic: of two that try, one gets the entry.
            self._undecided.pop()
        except IndexError:
            return False
        return True

    def start(self, instance: TaskInstance) -> Run:
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
        complete: Callable[[Run, object], bool] | None = None,
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
        """What is left of ``expire_after``; zero at least, all before the call."""
        if self.called is None:
            return self.allowed
        return max(ZERO, self.called + self.allowed - elapsed)


def run_here() -> Run | None:
    """The run in which this is called, if any."""
    return _current.get(None)


def enter_run(run: Run) -> Token[Run]:
    """Make a run the current one, until ``leave_run`` gets what this returns."""
    return _current.set(run)


def leave_run(token: Token[Run]) -> None:
    """Undo ``enter_run``."""
    _current.reset(token)


def current_run() -> Run:
    """The run in which this is called.

    Returns:
        The run of the handler that is executing, in its thread, its task, or a context
        copied from either.

    Raises:
        SchedulerStateError: No handler is executing here.
    """
    try:
        return _current.get()
    except LookupError:
        raise SchedulerStateError(
            "current_run() has an answer only inside a handler, and not in the"
            " process of a process pool"
        ) from None
