"""Compares a declared set with the stored definitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, get_args

from go_scheduler.checks import check_name, check_type
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown
from go_scheduler.json import is_same
from go_scheduler.models import TaskDefinition
from go_scheduler.stores import rules
from go_scheduler.stores.filters import all_items

if TYPE_CHECKING:
    from uuid import UUID

    from go_scheduler.client import Client

_PAGE = 1000
_FIELDS = [
    each.name for each in fields(TaskDefinition) if each.compare and each.name != "id"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A stored definition that would change.

    Attributes:
        before: The stored definition.
        after: The declared definition.
        fields: The names of the fields that differ; *paused* if it would be resumed,
            and *owner* if it would be taken into the set.
    """

    before: TaskDefinition
    after: TaskDefinition
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a declaration would change.

    Attributes:
        owner: The owner of the set.
        added: Definitions that are not stored yet.
        changed: Stored definitions that differ.
        removed: Definitions of the set that are no longer declared.
        removal: What happens to these: *delete*, *pause* or *keep*.
        unchanged: Stored definitions that stay as they are.
        refused: Why the declaration would be refused: a sentence for each definition of
            another owner; empty: it would not be refused.
    """

    owner: str
    added: tuple[TaskDefinition, ...]
    changed: tuple[Change, ...]
    removed: tuple[TaskDefinition, ...]
    removal: rules.Removed
    unchanged: tuple[TaskDefinition, ...]
    refused: tuple[str, ...]

    @property
    def changes_nothing(self) -> bool:
        """Whether everything would stay as it is."""
        gone = self.removed and self.removal != "keep"
        return not (self.added or self.changed or gone or self.refused)


def compare(
    declared: Iterable[TaskDefinition],
    stored: Iterable[TaskDefinition],
    *,
    owner: str,
    removed: rules.Removed = "delete",
    adopt: bool = False,
) -> Plan:
    """Compare a declared set with stored definitions.

    Args:
        declared: The set; each id once.
        stored: The stored set of the owner, and all others with one of these ids.
        owner: The owner of the set.
        removed: As for ``declare``.
        adopt: As for ``declare``.

    Raises:
        ConfigurationError: An argument is wrong.
    """
    owner = check_name("owner", owner)
    if removed not in get_args(rules.Removed):
        raise ConfigurationError(
            f"removed must be 'delete', 'pause' or 'keep', not {shown(removed)}"
        )
    known = {each.id: each for each in stored}
    given = _by_id(declared)
    changed: list[Change] = []
    unchanged: list[TaskDefinition] = []
    refused: list[str] = []
    for id, new in given.items():
        old = known.get(id)
        if old is None:
            continue
        if (reason := _refusal(old, new, owner, adopt=adopt)) is not None:
            refused.append(reason)
        elif differing := _differing(old, new, owner):
            after = replace(new, owner=owner)
            changed.append(Change(before=old, after=after, fields=differing))
        else:
            unchanged.append(old)
    return Plan(
        owner=owner,
        added=tuple(new for id, new in given.items() if id not in known),
        changed=tuple(changed),
        removed=tuple(
            each
            for each in known.values()
            if each.owner == owner
            and each.id not in given
            and not rules.was_removed(each)
        ),
        removal=removed,
        unchanged=tuple(unchanged),
        refused=tuple(refused),
    )


def plan(
    client: Client,
    definitions: Iterable[TaskDefinition],
    *,
    owner: str,
    removed: rules.Removed = "delete",
    adopt: bool = False,
) -> Plan:
    """What ``client.declare`` would change, without changing anything.

    ```python
    found = plan(scheduler, definitions, owner="shop")
    if not found.changes_nothing:
        scheduler.declare(definitions, owner="shop")
    ```

    Args:
        client: Reads what is stored; a scheduler is one.
        definitions: As for ``declare``.
        owner: As for ``declare``.
        removed: As for ``declare``.
        adopt: As for ``declare``.

    Raises:
        ConfigurationError: An argument is wrong.
    """
    given = list(_by_id(definitions).values())
    owner = check_name("owner", owner)
    read = partial(client.list_definitions, owner=owner, limit=_PAGE)
    stored = {each.id: each for each in all_items(read)}
    others = [each.id for each in given if each.id not in stored]
    for first in range(0, len(others), _PAGE):
        ids = others[first : first + _PAGE]
        stored |= {
            each.id: each for each in client.list_definitions(ids=ids, limit=_PAGE)
        }
    return compare(given, stored.values(), owner=owner, removed=removed, adopt=adopt)


def _by_id(declared: Iterable[TaskDefinition]) -> Mapping[UUID, TaskDefinition]:
    check_type("definitions", declared, Iterable)
    given = list(declared)
    for each in given:
        check_type("a definition", each, TaskDefinition)
        if not each.named:
            raise ConfigurationError(
                "what is declared needs an id of its own, the same at each start, as by"
                f" key='nightly report': {shown(each.trigger)}"
            )
    rules.check_each_once(given)
    return {each.id: each for each in given}


def _refusal(
    old: TaskDefinition, new: TaskDefinition, owner: str, *, adopt: bool
) -> str | None:
    declaration = rules.Declaration(owner=owner, definitions=[new], adopts=adopt)
    try:
        rules.check_owners(declaration, {old.id: old})
    except ConfigurationError as error:
        return str(error)
    return None


def _differing(old: TaskDefinition, new: TaskDefinition, owner: str) -> tuple[str, ...]:
    found = [name for name in _FIELDS if not _is_equal(old, new, name)]
    if rules.was_removed(old):
        found.append("paused")
    if old.owner != owner:
        found.append("owner")
    return tuple(found)


def _is_equal(old: TaskDefinition, new: TaskDefinition, name: str) -> bool:
    if name == "metadata":
        return is_same(old.metadata, new.metadata)
    return bool(getattr(old, name) == getattr(new, name))


def values_of(change: Change) -> Sequence[tuple[str, object, object]]:
    """Name, value before and value after of each field that differs."""
    return [
        (name, getattr(change.before, name), getattr(change.after, name))
        for name in change.fields
    ]
