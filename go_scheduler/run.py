"""The running instance as its handler sees it, and what the handler may raise."""

from __future__ import annotations

from contextvars import ContextVar, Token
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from go_scheduler.argument_hints import write_instead
from go_scheduler.checks import check_at_least, check_name, check_positive
from go_scheduler.clock import ZERO
from go_scheduler.errors import ClaimLostError, ConfigurationError, SchedulerStateError

if TYPE_CHECKING:
    from uuid import UUID

    from go_scheduler.models import TaskInstance


class _Delayed(Exception):
    def __init__(self, delay: timedelta, reason: str | None = None) -> None:
        check_at_least("delay", delay, ZERO)
        super().__init__(delay, reason)
        self.delay = delay
        self.reason = reason


@write_instead("RetryAfter(timedelta(minutes=10), 'not there yet')")
class RetryAfter(_Delayed):
    """Raised by a handler that is to be run again, after a time of its choosing.

    It counts as a run: after ``max_attempts`` of them the instance has *failed*.

    ```python
    def handler(instance: TaskInstance) -> None:
        if not (report := find_report(instance)):
            raise RetryAfter(timedelta(minutes=10), "the report is not there yet")
    ```

    Attributes:
        delay: After how long it is run again.
        reason: Why, for a person to read.

    Raises:
        ConfigurationError: ``delay`` is not a timedelta of zero or more.
    """

    def __str__(self) -> str:
        why = "" if self.reason is None else f": {self.reason}"
        return f"to be run again in {self.delay}{why}"


@write_instead("GiveBack(timedelta(seconds=5), 'the printer is away')")
class GiveBack(_Delayed):
    """Raised by a handler that has not begun anything, and cannot now.

    The instance is given back for a while, for any node to claim after it. It counts as
    no run: nothing has failed, ``retry`` has no part in it, and there is no end to it.
    If somebody has asked it to stop, it is cancelled.

    ```python
    def handler(instance: TaskInstance) -> None:
        if not printer.is_up():
            raise GiveBack(timedelta(seconds=5), "the printer is away")
    ```

    Attributes:
        delay: After how long it may be claimed again.
        reason: Why, for a person to read.

    Raises:
        ConfigurationError: ``delay`` is not a timedelta of zero or more.
    """

    def __str__(self) -> str:
        return self.reason or "its handler cannot begin it now"


class Fail(Exception):
    """Raised by a handler whose instance is to fail for good, without another run.

    ```python
    def handler(instance: TaskInstance) -> None:
        if instance.metadata["customer"] not in customers:
            raise Fail("there is no such customer")
    ```
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


_current: ContextVar[RunState] = ContextVar("go_scheduler_run")


class RunState(Protocol):
    """The part of a run's state that its handler may read or change."""

    @property
    def instance(self) -> TaskInstance:
        """What is run."""

    @property
    def lost(self) -> bool:
        """Whether it no longer has the instance."""

    @property
    def cancel_requested(self) -> bool:
        """Whether somebody asked it to stop."""

    @property
    def joined(self) -> bool:
        """Whether it has been told to complete within a transaction."""

    def extend(self, by: timedelta) -> bool:
        """Allow it more time; false if it is too late."""

    def complete_in(self, connection: object) -> bool:
        """Record its success in a transaction; false: the instance has ended."""


class Run:
    """One run of an instance; handlers get theirs from ``current_run()``."""

    __slots__ = ("_state",)

    def __init__(self, state: RunState) -> None:
        self._state = state

    def __eq__(self, other: object) -> bool:
        # Each call of current_run() makes one.
        return isinstance(other, Run) and other._state is self._state

    def __hash__(self) -> int:
        return hash(self._state)

    @property
    def instance(self) -> TaskInstance:
        """What is run."""
        return self._state.instance

    @property
    def token(self) -> tuple[UUID, int]:
        """The fencing token, ``(instance.id, attempt)``.

        Hand it to whatever the handler writes to: of two tokens with one id, the one
        with the higher attempt is the later run.
        """
        return self.instance.id, self.instance.attempt

    @property
    def lost(self) -> bool:
        """Whether the claim has passed to another run, or the instance has ended.

        Of what becomes of this run only a success is recorded, if it is the first.
        """
        return self._state.lost

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop: it was asked to, or is not needed any more.

        Learnt when the claim is renewed, so up to a third of the lease late.
        """
        return self._state.cancel_requested or self.lost

    def extend(self, by: timedelta) -> None:
        """Allow this run more time before it is presumed hung; its timeout stays.

        Args:
            by: What is added to what is left of ``expire_after``; more than zero.

        Raises:
            ConfigurationError: ``by`` is not a timedelta above zero.
            ClaimLostError: It is too late: the instance is not this run's any more, or
                its timeout has passed.
        """
        check_positive("by", by)
        if not self._state.extend(by):
            raise self._claim_lost("is not this run's any more, or has timed out")

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
            ConfigurationError: It is no such connection, or no store that takes part.
            StoreUnavailableError: Repeating the transaction may help.
        """
        again = self._state.joined
        if not self._state.complete_in(connection):
            by = "an earlier complete_in()" if again else "another run"
            raise self._claim_lost(f"has been completed by {by}, cancelled or deleted")

    def _claim_lost(self, why: str) -> ClaimLostError:
        id, attempt = self.token
        return ClaimLostError(f"instance {id}, attempt {attempt}: it {why}")


@write_instead("HandedOn(expire_after=timedelta(hours=1))")
@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOn:
    """What a handler returns that has handed its work on: the run goes on elsewhere.

    The instance stays *running*, and costs this node nothing any more. Whoever has the
    work keeps it by ``extend``, and ends it by ``complete``, ``fail`` or ``release`` of
    a scheduler or client, with the token of ``current_run()``. If nobody does, it runs
    again.

    Attributes:
        expire_after: How long it is kept without that, counted from when it is handed
            on, and no less than until the claim lapses under which the handler was
            called, which takes up to a ``lease``; None: for as long as a run of it may
            take.
        worker: Who has it now, for a person to read: it is the ``worker`` of the
            instance from then on. At most 200 characters; None: nobody knows.
        start_timeout: The run is on a bus, where somebody is to accept it within that
            time by ``accept``; if nobody does, it has failed, and ``retry`` applies.
            None: it is on none.

    Raises:
        ConfigurationError: ``expire_after`` or ``start_timeout`` is not a timedelta
            above zero, both are given, or ``worker`` is no such text.
    """

    expire_after: timedelta | None = None
    worker: str | None = None
    start_timeout: timedelta | None = None

    def __post_init__(self) -> None:
        if self.expire_after is not None:
            check_positive("expire_after", self.expire_after)
        if self.start_timeout is not None:
            check_positive("start_timeout", self.start_timeout)
            if self.expire_after is not None:
                raise ConfigurationError(
                    "expire_after is of no use with start_timeout: whoever accepts the"
                    " run says for how long it is kept"
                )
        if self.worker is not None:
            object.__setattr__(self, "worker", check_name("worker", self.worker))


def current_run() -> Run:
    """The run in which this is called.

    Returns:
        The run of the handler that is executing, in its thread, its task, or a context
        copied from either.

    Raises:
        SchedulerStateError: No handler is executing here.
    """
    try:
        return Run(_current.get())
    except LookupError:
        raise SchedulerStateError(
            "current_run() has an answer only inside a handler, and not in the"
            " process of a process pool"
        ) from None


def enter_run(state: RunState) -> Token[RunState]:
    """Make a run the current one, until ``leave_run`` gets what this returns."""
    return _current.set(state)


def leave_run(token: Token[RunState]) -> None:
    """Undo ``enter_run``."""
    _current.reset(token)


def run_here() -> RunState | None:
    """The state of the run in which this is called, if it is called in one."""
    return _current.get(None)
