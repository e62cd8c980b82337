"""What to do about overlaps, missed fire times and failed runs, without I/O."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Self, TypeGuard

from go_scheduler.argument_hints import write_instead
from go_scheduler.checks import (
    LONGEST,
    check_at_least,
    check_name,
    check_number,
    check_type,
)
from go_scheduler.clock import ZERO
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown

if TYPE_CHECKING:
    from uuid import UUID

__all__ = ["CatchUp", "Overlap", "RetryPolicy"]


class Overlap(StrEnum):
    """What becomes of an instance that is due while another one runs.

    What runs and what waits is that of the same definition, on any node. An instance
    runs in this sense from its first start until it has ended, retries included.
    """

    ALLOW = "allow"
    """They run beside each other."""
    SKIP = "skip"
    """It is skipped."""
    BUFFER_ONE = "buffer_one"
    """It waits for the end of the other; if one waits already, it is skipped."""
    BUFFER_ALL = "buffer_all"
    """It waits for its turn; if a thousand wait already, it is skipped."""
    REPLACE = "replace"
    """The other is asked to stop, and it runs when that has ended. If one waits
    already, that one is skipped."""


def check_overlap(value: object) -> Overlap:
    """Check an overlap, given as such or as its text.

    Raises:
        ConfigurationError: It is no overlap.
    """
    for each in Overlap:
        # A member of a user's own StrEnum equals ours, but must not be kept.
        if each == value:
            return each
    values = ", ".join(repr(each.value) for each in Overlap)
    raise ConfigurationError(f"overlap must be one of {values}: {shown(value)}")


@write_instead('CatchUp(mode="all", within=timedelta(hours=1))')
@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp:
    """What becomes of fire times that are late because nothing served them in time.

    Fire times that are late by ``grace`` at most all run. Later ones were *missed*, and
    the ``mode`` says which of them run. What does not run is recorded as skipped.

    All is counted from ``execute_at``. A ``DelayTrigger`` has no times that could be
    missed: what it fires runs, however late.

    Attributes:
        mode: ``"latest"`` runs the latest that was missed, unless a later fire time
            runs anyway; ``"all"`` runs all of them, the oldest first; ``"none"`` none.
        grace: How late a fire time may be without being missed; zero or more.
        within: How late a missed one may be and still run; None: any time.
        drop_after: What is later than this never runs, whatever the other fields say.
            That includes one-offs, retries, and what was in time when its instance was
            made. None: nothing is too late.

    Raises:
        ConfigurationError: The mode is none of these, or a duration is none, below zero
            (``drop_after``: not above zero), or above 100 years.
    """

    mode: Literal["latest", "all", "none"] = "latest"
    grace: timedelta = timedelta(seconds=10)
    within: timedelta | None = None
    drop_after: timedelta | None = None

    def __post_init__(self) -> None:
        if self.mode not in _MODES:
            raise ConfigurationError(
                f"mode must be one of {', '.join(map(repr, _MODES))}:"
                f" {shown(self.mode)}"
            )
        check_at_least("grace", self.grace, ZERO)
        if self.within is not None:
            check_at_least("within", self.within, ZERO)
        if self.drop_after is not None:
            check_at_least("drop_after", self.drop_after, ZERO)
            if not self.drop_after:
                raise ConfigurationError(
                    "drop_after must be more than zero: nothing starts at the very"
                    " instant it is due"
                )

    @property
    def dropping_alone(self) -> CatchUp:
        """The part that applies to what was late already when it was scheduled."""
        return _dropping(self.drop_after)

    def drops(self, late: timedelta) -> bool:
        """Whether what is so late never runs."""
        return self.drop_after is not None and late > self.drop_after

    @property
    def each(self) -> timedelta | None:
        """How late a fire time may be that runs in any case; None: any time."""
        if self.mode == "all":
            return self.latest
        return self._or_dropped(self.grace)

    @property
    def latest(self) -> timedelta | None:
        """How late the latest missed one may be, or each if all run."""
        # ``within`` does not restrict what is not missed.
        within = None if self.within is None else max(self.within, self.grace)
        return self._or_dropped(within)

    def why_not(self, instead: str | None = None) -> str:
        """Why what is too late does not run, for a person to read.

        Args:
            instead: What to say of a later fire time that runs; None: there is none.
        """
        is_latest = self.mode == "latest" and instead is None
        late = self.latest if is_latest else self.each
        if late == self.drop_after:
            why = f"late by more than its drop_after of {late}"
        elif late == self.grace:
            why = f"missed by more than the grace of {late}"
        else:
            why = f"missed by more than {late}, within which it would be caught up"
        if self.mode == "latest" and instead is not None:
            return f"{why}; {instead}"
        if self.mode == "none" and late == self.grace:
            return f"{why}; of what was missed nothing is caught up"
        return why

    def _or_dropped(self, late: timedelta | None) -> timedelta | None:
        if self.drop_after is None or late is None:
            return late if self.drop_after is None else self.drop_after
        return min(late, self.drop_after)


_MODES = ("latest", "all", "none")


# Each one-off that is late when it is scheduled asks for it.
@lru_cache(maxsize=100)
def _dropping(drop_after: timedelta | None) -> CatchUp:
    return CatchUp(mode="all", drop_after=drop_after)


_MOST_ATTEMPTS = 1_000_000_000
_MOST_FACTOR = 1000
_UNSAID: Any = ...
_GROWING = {
    "delay": timedelta(seconds=15),
    "factor": 2.0,
    "max_delay": timedelta(minutes=5),
    "jitter": 0.2,
}
"""The values if no ``delay`` is given."""

_STEADY = {"factor": 1.0, "max_delay": None, "jitter": 0.0}
"""The values beside a ``delay`` that is given."""


@write_instead("RetryPolicy(max_attempts=5, delay=timedelta(seconds=10), factor=2)")
@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When a run that did not succeed is followed by another.

    The n-th retry begins ``delay * factor ** (n - 1)`` after the failure, ``max_delay``
    at most, and up to ``jitter`` later than that. The defaults depend on ``delay``.
    Without one, the first retry begins after 15 seconds, each further one after twice
    as long, up to five minutes, and each up to a fifth later. With one, each retry
    begins after that delay, without any jitter.

    With ``delay=None`` the next run begins when ``expire_after`` has passed since the
    last one began: see ``after_expiry``. A run that is presumed hung is followed at
    once, and one that died with its node as soon as its claim has lapsed, whatever the
    delay.

    Attributes:
        max_attempts: Runs after which the instance is *failed*, at most a billion;
            None: no end. A run is counted before its handler is called, so a handler
            that kills its process is bounded too.
        delay: How long after a failure the first retry begins; None: see above.
        factor: How many times longer each delay is than the one before, 1 to 1,000.
        max_delay: The longest delay, jitter not included; None: no bound but 100 years.
        jitter: How far retries are spread: a part of the delay, from 0 to 1, or a time.
            It is the most that is added; what is added follows from instance and run.
        stop_on: Exceptions after which the instance is *failed* at once, each by its
            class or by the name of that, such as ``"builtins.KeyError"``, or without
            its module, ``"KeyError"``. Those that are derived from it count as well.
            Kept as names.

    Raises:
        ConfigurationError: A value is of the wrong type or out of range, or needs a
            ``delay``.
    """

    max_attempts: int | None = 20
    delay: timedelta | None = _UNSAID
    factor: float = _UNSAID
    max_delay: timedelta | None = _UNSAID
    jitter: float | timedelta = _UNSAID
    stop_on: Collection[type[BaseException] | str] = ()

    def __post_init__(self) -> None:
        unsaid = _GROWING if self.delay is _UNSAID else _STEADY
        for name, value in unsaid.items():
            if getattr(self, name) is _UNSAID:
                object.__setattr__(self, name, value)
        if self.max_attempts is not None:
            check_number("max_attempts", self.max_attempts, 1, _MOST_ATTEMPTS)
        object.__setattr__(self, "factor", _checked_factor(self.factor))
        object.__setattr__(self, "jitter", _checked_jitter(self.jitter))
        object.__setattr__(self, "stop_on", _names(self.stop_on))
        if self.delay is not None:
            check_at_least("delay", self.delay, ZERO)
        elif self.factor != 1 or self.max_delay is not None or self.jitter:
            raise ConfigurationError(
                "factor, max_delay and jitter say how a delay changes: delay=None has"
                " none"
            )
        if self.max_delay is not None:
            check_at_least("max_delay", self.max_delay, self.delay or ZERO)

    @classmethod
    def after_expiry(
        cls,
        *,
        max_attempts: int | None = 100,
        stop_on: Collection[type[BaseException] | str] = (),
    ) -> Self:
        """A run is followed when ``expire_after`` has passed since it began.

        This is the policy of a definition that has its own ``expire_after`` and no
        ``retry``, unless its scheduler was given a ``retry`` for all.

        Args:
            max_attempts: As of any policy.
            stop_on: Likewise.

        Raises:
            ConfigurationError: A value is of the wrong type or out of range.
        """
        return cls(max_attempts=max_attempts, delay=None, stop_on=stop_on)

    def allows(self, runs: int) -> bool:
        """Whether an instance that ran this often may run again."""
        return self.max_attempts is None or runs < self.max_attempts

    def stops_on(self, kinds: Collection[str]) -> bool:
        """Whether an exception whose class has these names is not tried again."""
        return not set(kinds).isdisjoint(self.stop_on)

    def retry_in(
        self,
        *,
        instance_id: UUID,
        runs: int,
        ran_for: timedelta,
        expire_after: timedelta,
    ) -> timedelta:
        """How long after a failed run the next one is due.

        Args:
            instance_id: What was run.
            runs: The runs so far, the failed one included; at least 1.
            ran_for: How long ago the failed run began.
            expire_after: How long a run of this definition may take.
        """
        if self.delay is None:
            return max(ZERO, expire_after - ran_for)
        longest = LONGEST if self.max_delay is None else self.max_delay
        try:
            delay = min(longest, self.delay * self.factor ** (runs - 1))
        except OverflowError:
            delay = longest
        if not self.jitter:
            return delay
        most = self.jitter
        if not isinstance(most, timedelta):
            most = delay * most
        return delay + most * _share(instance_id, runs)


def names_of(kind: type[BaseException]) -> tuple[str, ...]:
    """The names by which ``stop_on`` knows a class: its own and its bases'.

    Returns:
        The names of the class and of its bases, with and without module.
    """
    return tuple(
        name for each in kind.__mro__ for name in (_full_name(each), each.__qualname__)
    )


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _share(instance_id: UUID, runs: int) -> float:
    """A number from 0 to 1, the same everywhere for the same run."""
    # Imported here, as it takes long and few policies need it.
    from hashlib import blake2b

    seed = instance_id.bytes + runs.to_bytes(8, "big")
    return int.from_bytes(blake2b(seed, digest_size=6).digest(), "big") / 2**48


def _checked_factor(factor: object) -> float:
    if not _is_number(factor, 1, _MOST_FACTOR):
        raise ConfigurationError(
            f"factor must be a number from 1 to {_MOST_FACTOR:,}: {shown(factor)}"
        )
    return float(factor)


def _checked_jitter(jitter: object) -> float | timedelta:
    if isinstance(jitter, timedelta):
        check_at_least("jitter", jitter, ZERO)
        return jitter
    if not _is_number(jitter, 0, 1):
        raise ConfigurationError(
            "jitter must be a part of the delay, from 0 to 1, or a timedelta:"
            f" {shown(jitter)}"
        )
    return float(jitter)


def _is_number(value: object, least: int, most: int) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return least <= value <= most


def _names(stop_on: object) -> tuple[str, ...]:
    if isinstance(stop_on, str) or not isinstance(stop_on, Collection):
        raise ConfigurationError(
            "stop_on must be a sequence of exception classes, or of their names, not"
            f" {shown(stop_on)}"
        )
    return tuple(sorted({_name(each) for each in stop_on}))


def _name(exception: object) -> str:
    if isinstance(exception, type) and issubclass(exception, BaseException):
        return _full_name(exception)
    check_type("an exception of stop_on", exception, str)
    return check_name("an exception of stop_on", exception)
