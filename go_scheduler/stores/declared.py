"""Declared sets of definitions: one rule for every store."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias
from uuid import UUID

from go_scheduler.errors import ConfigurationError
from go_scheduler.models import TaskDefinition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

Removed: TypeAlias = Literal["delete", "pause", "keep"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """All the definitions that an owner wants, and no others.

    Attributes:
        owner: Whose set it is.
        definitions: The set; each id once.
        version: Which version of the program wants it; None: the owner has no versions.
        removed: What becomes of those of the owner's that are not in it: they are
            deleted or paused, or stay as they are.
        adopts: Whether definitions that are in no set are taken into this one.
    """

    owner: str
    definitions: Sequence[TaskDefinition]
    version: int | None = None
    removed: Removed = "delete"
    adopts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What a declaration came to.

    Attributes:
        definitions: The set as it is now stored, in the order given; empty if the
            declaration is outdated.
        resumed: Those of them that the set had paused.
        deleted: The ids of those that were deleted.
        paused: Those that were paused.
        outdated_by: The version that is stored, if it is a later one: then nothing has
            changed.
    """

    definitions: Sequence[TaskDefinition] = ()
    resumed: Sequence[TaskDefinition] = ()
    deleted: Set[UUID] = frozenset()
    paused: Sequence[TaskDefinition] = ()
    outdated_by: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetVersion:
    """Which declaration of an owner was the last.

    Attributes:
        owner: Whose.
        version: Its version, if it had one.
        declared_at: When it was made.
    """

    owner: str
    version: int | None
    declared_at: datetime


def is_outdated(declared: int | None, stored: int | None) -> bool:
    """Whether a set of this version comes after a later one has been declared."""
    return stored is not None and (declared is None or declared < stored)


def check_owners(
    declaration: Declaration, stored: Mapping[UUID, TaskDefinition]
) -> None:
    """Refuse to take what belongs to somebody else, or to nobody.

    What a set has paused, as it is declared there no more, may be taken.

    Args:
        declaration: What is declared.
        stored: Of its definitions those that there are.

    Raises:
        ConfigurationError: One of them is in another set, or in none.
    """
    for each in stored.values():
        if each.owner is None and not declaration.adopts:
            raise ConfigurationError(
                f"definition {each.id} is in no declared set: adopt=True, or --adopt"
                f" of a command, takes it into that of {declaration.owner!r}"
            )
        if each.owner not in (None, declaration.owner) and not was_removed(each):
            raise ConfigurationError(
                f"definition {each.id} is in the set of {each.owner!r}: let that one"
                f" declare it no more, or delete it, before {declaration.owner!r}"
                " declares it"
            )


def removal_note(owner: str) -> str:
    """Why a definition is paused that is no longer in its set."""
    return f"no longer declared by {owner}"


def was_removed(definition: TaskDefinition) -> bool:
    """Whether its set has paused a definition, and not somebody by hand."""
    owner, note = definition.owner, definition.note
    return definition.paused and owner is not None and note == removal_note(owner)


def is_among(
    definition: TaskDefinition,
    queues: Collection[str] | None,
    owners: Collection[str] | None,
) -> bool:
    """Whether a definition has one of these queues and owners; None: any will do."""
    return (queues is None or definition.queue in queues) and (
        owners is None or definition.owner in owners
    )
