"""What a store answers to a batch, and to those who ask what may go on."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Generic, TypeVar
from uuid import UUID

from go_scheduler.models import TaskInstance

Done = TypeVar("Done", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[Done]):
    """The answer to a batch: each row of it is done, busy, or else lost.

    Attributes:
        done: What was done.
        busy: The ids of the rows that another transaction had locked: nothing of them
            has changed, and asking again may help.
    """

    done: Done
    busy: Set[UUID] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired(Answer[Set[UUID]]):
    """The same to firings, and what was started, with its definitions as of now."""

    started: Sequence[TaskInstance] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """What came of going over what is parked.

    Attributes:
        unparked: The instances that may go on, as they are now.
        skipped: Those that have ended as skipped, with the reason.
        replaced: Those that were asked to stop, or were cancelled as they did not run.
        parked: Whether anything may be parked still.
        more: Whether asking again soon may help: there was more than was asked for, or
            another transaction had locked some of it.
    """

    unparked: Sequence[TaskInstance] = ()
    skipped: Sequence[TaskInstance] = ()
    replaced: Sequence[TaskInstance] = ()
    parked: bool = False
    more: bool = False
