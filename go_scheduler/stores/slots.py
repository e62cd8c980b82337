"""Slots: what excludes each other, and what becomes of what waits; for every store.

Of all instances with the same slot one at a time has it: from its first start until it
has ended. The others are parked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.policies import Overlap

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from go_scheduler.models import TaskDefinition, TaskInstance

MOST_BUFFERED = 1000
"""Of one definition so many instances wait by ``Overlap.BUFFER_ALL``."""

LOCK = "lock "
"""What the names of slots begin with that definitions may share."""

_ALLOW = Overlap.ALLOW

_RUNS = "another instance of its definition ran when it was due"
_WAITS = "another instance of its definition waited for its turn when it was due"
_TOO_MANY = f"{MOST_BUFFERED:,} instances of its definition waited when it was due"
REPLACED = "a later instance of its definition took its place while it waited"


def uses_slot(definition: TaskDefinition) -> bool:
    """Whether any instance of a definition excludes another one."""
    return definition.overlap is not _ALLOW or definition.lock is not None


def slot_of(
    definition: TaskDefinition, *, fired: bool, backfilled: Overlap | None = None
) -> str | None:
    """The name of the slot that an instance takes; None: it excludes none.

    A lock is waited for by whatever is to run. Without one the slot is the definition's
    own; its trigger, if that waits for the end of a run, has no need of it.

    Args:
        definition: Its definition.
        fired: Whether it has a fire time, and was not made by hand.
        backfilled: The overlap that it was backfilled with, if it was.
    """
    if definition.lock is not None:
        return LOCK + definition.lock
    if backfilled is not None:
        return None if backfilled is Overlap.ALLOW else f"{definition.id}"
    return None if overlap_of(definition, fired=fired) is None else f"{definition.id}"


def slot_taken_by(instance: TaskInstance) -> str | None:
    """The slot of an instance, by its definition as it was read; None: it has none."""
    return slot_of(
        instance.definition,
        fired=instance.fire_time is not None,
        backfilled=instance.backfilled,
    )


def takes_slot(instance: TaskInstance) -> bool:
    """Whether an instance takes a slot, by its definition as it was read."""
    if not uses_slot(instance.definition) and instance.backfilled is None:
        return False
    return slot_taken_by(instance) is not None


def overlap_of(definition: TaskDefinition, *, fired: bool) -> Overlap | None:
    """What decides on an instance that is due and parked; None: it waits."""
    if definition.overlap is _ALLOW or (fired and definition.trigger.waits):
        return None
    return definition.overlap


def overlap_of_backfilled(backfilled: Overlap) -> Overlap | None:
    """By what one is judged that was backfilled with an overlap; None: it waits.

    Somebody wants each of them to run one after another: however many wait, none is
    skipped.
    """
    waits = backfilled in (Overlap.ALLOW, Overlap.BUFFER_ALL)
    return None if waits else backfilled


def exclusion_of(definition: TaskDefinition) -> tuple[object, ...]:
    """What has to be the same for its instances to exclude the same."""
    return definition.overlap, definition.lock, definition.trigger.waits


class Fate(NamedTuple):
    """What becomes of an instance that is due and parked.

    Attributes:
        reason: Why it is skipped; None: it waits.
        replaced: Those waiting that are skipped for its sake.
        stops: Whether the one that runs is asked to stop.
    """

    reason: str | None = None
    replaced: Sequence[UUID] = ()
    stops: bool = False


def fate_of(overlap: Overlap, *, runs: bool, waiting: Sequence[UUID]) -> Fate:
    """What becomes of an instance that is due while its slot is taken.

    Args:
        overlap: That of its definition, which is not to allow it.
        runs: Whether it is one of the same definition that has the slot.
        waiting: Those of the same definition that wait for it already; of what was
            backfilled, those that were, and else the others.
    """
    if overlap is Overlap.REPLACE:
        return Fate(replaced=waiting, stops=runs)
    if overlap is Overlap.SKIP and runs:
        return Fate(_RUNS)
    if overlap is Overlap.BUFFER_ALL:
        return Fate(_TOO_MANY if len(waiting) >= MOST_BUFFERED else None)
    return Fate(_WAITS if waiting else None)
