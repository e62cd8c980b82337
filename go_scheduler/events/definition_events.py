"""What happens to definitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from logging import ERROR, INFO, WARNING
from uuid import UUID

from go_scheduler.events.event import DefinitionEvent, Event, Line
from go_scheduler.policies import Overlap


class Change(StrEnum):
    """How a definition was changed by hand."""

    PAUSED = "paused"
    """Nothing of it starts until it is resumed."""
    RESUMED = "resumed"
    """Its pause has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionScheduled(DefinitionEvent):
    """``schedule()`` or ``declare()`` has stored it, or has found it stored as it is.

    Attributes:
        next_fire_time: When it fires next; None: no more.
        revision: Its revision by now; rises with every change.
        joined: Whether it is part of a transaction of the caller's, which may be rolled
            back yet.
    """

    next_fire_time: datetime | None
    revision: int | None
    joined: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionChanged(DefinitionEvent):
    """It was paused or resumed.

    Attributes:
        change: Which of the two.
        note: Why it is paused, if somebody has said so.
        joined: Whether it is part of a transaction of the caller's, which may be rolled
            back yet.
    """

    change: Change
    note: str | None
    joined: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionDeleted(Event):
    """It was deleted, and what had not started of it.

    Attributes:
        definition_id: Which.
        joined: As for ``DefinitionChanged``.
    """

    definition_id: UUID
    joined: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclarationOutdated(Event):
    """A set was declared that has been declared at a later version: nothing changed.

    Attributes:
        owner: Whose set it is.
        version: The version that came too late; None: it had none.
        stored: The later one.
    """

    owner: str
    version: int | None
    stored: int

    @property
    def _line(self) -> Line:
        is_one = self.version is not None
        return Line(
            # With versions this is normal in a rolling deploy.
            INFO if is_one else WARNING,
            "the set of %(owner)s was declared at version %(stored)d: what is declared"
            f" {'at %(version)d' if is_one else 'without one'} changes nothing",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionCompleted(DefinitionEvent):
    """It will not fire again: its last fire time has its instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionLocked(DefinitionEvent):
    """Its firing has to wait: another transaction has locked it for about a second."""

    _line = Line(
        WARNING,
        "definition %(definition_id)s: another transaction has locked it, its firing"
        " has to wait",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionSetAside(DefinitionEvent):
    """It cannot fire: its trigger failed or hangs, or its firing cannot be written.

    It is tried again, a little later each time; told when that begins.

    Attributes:
        retry_in: After how long it is tried again.
        error: Why, as text.
        exception: The same, as it was raised.
    """

    retry_in: timedelta
    error: str
    exception: BaseException = field(repr=False, compare=False)

    _line = Line(
        ERROR,
        "definition %(definition_id)s cannot fire and is left alone for"
        " %(retry_in)d s: %(exception)r",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerFailed(DefinitionEvent):
    """Its trigger failed when it was asked at the end of a run that it waited for.

    It fires all the same, a minute later.

    Attributes:
        error: Why, as text.
        exception: The same, as it was raised.
    """

    error: str
    exception: BaseException = field(repr=False, compare=False)

    _line = Line(
        ERROR,
        "definition %(definition_id)s: its trigger failed, it fires again in a minute:"
        " %(exception)r",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceCreated(DefinitionEvent):
    """One of its fire times was given an instance.

    Attributes:
        fire_time: The fire time, at which the instance is due.
    """

    fire_time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceAdded(DefinitionEvent):
    """It was given an instance by hand, or by being enqueued.

    Attributes:
        instance_id: Which.
        execute_at: When it is to run.
        key: Its key, if it has one.
        joined: Whether it is part of a transaction of the caller's, which may be rolled
            back yet.
    """

    instance_id: UUID
    execute_at: datetime
    key: str | None
    joined: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InstancesBackfilled(DefinitionEvent):
    """Fire times of it that have passed were given instances, by hand.

    Attributes:
        first: The first of them.
        last: The last of them.
        count: How many there are.
        overlap: By which the instances exclude each other.
        joined: Whether they are part of a transaction of the caller's, which may be
            rolled back yet.
    """

    first: datetime
    last: datetime
    count: int
    overlap: Overlap
    joined: bool

    _line = Line(
        INFO,
        "%(what)s: %(count)d of its fire times from %(first)s to %(last)s are run after"
        " all, by hand",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSkipped(DefinitionEvent):
    """Fire times that will not run were recorded in one instance.

    Or what was added by hand was, each in its own, as too many wait.

    Attributes:
        first: The first of them.
        last: The last of them.
        count: How many there are; at least so many if the reason says so.
        reason: Why they do not run.
        late: Whether that is because they were missed; else an ``overlap`` says so, or
            for what was added ``when_full``.
        added: Whether they are no fire times, and were added by hand.
        joined: Whether that is part of a transaction of the caller's, which may be
            rolled back yet.
    """

    first: datetime
    last: datetime
    count: int
    reason: str
    late: bool = True
    added: bool = False
    joined: bool = False

    @property
    def _line(self) -> Line:
        times = "that were added for" if self.added else "of its fire times from"
        return Line(
            # Skipping by an overlap or a full queue is what the user asked for.
            WARNING if self.late else INFO,
            f"%(what)s: not run, %(count)d {times} %(first)s to %(last)s: %(reason)s",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionsMoved(Event):
    """Definitions fire at other instants, by the present data of their time zones.

    Attributes:
        count: How many.
    """

    count: int

    _line = Line(
        INFO,
        "%(count)d definitions fire at other instants, by the present data of their"
        " time zones",
    )
