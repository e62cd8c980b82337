"""Finds a definition or instance by its id, its key or its name."""

from __future__ import annotations

import re
from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING
from uuid import UUID

from go_scheduler.checks import parse_id
from go_scheduler.cli.output import at, described
from go_scheduler.client.pages import from_id
from go_scheduler.errors import (
    ConfigurationError,
    GoSchedulerError,
    TaskDefinitionNotFoundError,
)
from go_scheduler.formatting import shown
from go_scheduler.models import TaskDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from go_scheduler.cli.connection import Connected
    from go_scheduler.models import TaskInstance

_BEGINNING = re.compile(r"[0-9a-f][0-9a-f-]{0,35}", re.ASCII)
_PAGE = 1000
_MOST_PAGES = 10
_SHOWN = 5


class NoneMeantError(GoSchedulerError, LookupError):
    """Nothing matches."""


def definition_meant(client: Connected, text: str) -> UUID:
    """The id of a definition.

    Args:
        client: Reads definitions.
        text: A whole id, which need not exist; a key; the beginning of an id; or a
            name.

    Raises:
        NoneMeantError: No definition matches.
        ConfigurationError: Several definitions match.
    """
    if (id := _definition_of(client, text)) is None:
        raise NoneMeantError(
            f"no definition has the key or name {shown(text)}, or an id that begins so"
            f"{near_name(client, text)}"
        )
    return id


def instance_meant(client: Connected, text: str) -> UUID:
    """The id of an instance.

    Args:
        client: Reads instances.
        text: A whole id, which need not exist, or the beginning of one.

    Raises:
        NoneMeantError: No instance matches.
        ConfigurationError: Several match, or there are too many instances to search.
    """
    if (id := _instance_of(client, text)) is None:
        raise NoneMeantError(f"no instance has an id that begins with {shown(text)}")
    return id


def anything_meant(client: Connected, text: str) -> UUID:
    """The id of a definition, or else of an instance.

    Raises:
        NoneMeantError: Nothing matches.
        ConfigurationError: Several match.
    """
    id = _definition_of(client, text) or _instance_of(client, text)
    if id is None:
        raise NoneMeantError(
            f"nothing has the key or name {shown(text)}, or an id that begins so"
            f"{near_name(client, text)}"
        )
    return id


def _definition_of(client: Connected, text: str) -> UUID | None:
    if (id := parse_id(text)) is not None:
        return id
    with suppress(TaskDefinitionNotFoundError):
        return client.get_definition(TaskDefinition.id_for(text)).id
    found = _definitions(client, text)
    return _only(text, {id: _definition_line(each) for id, each in found.items()})


def _instance_of(client: Connected, text: str) -> UUID | None:
    if (id := parse_id(text)) is not None:
        return id
    begin = _beginning(text)
    found = [] if begin is None else _instances_from(client, begin)
    return _only(text, {each.id: _instance_line(each) for each in found})


def near_name(client: Connected, text: str) -> str:
    """A hint at a similar name on the first page of definitions.

    Empty if no name is similar, or if a definition has this very name.
    """
    names = {each.name for each in client.list_definitions(limit=_PAGE) if each.name}
    near = get_close_matches(text, names, n=1, cutoff=0.7)
    return f": did you mean {shown(near[0])}?" if near and near != [text] else ""


def _definitions(client: Connected, text: str) -> dict[UUID, TaskDefinition]:
    """The definitions that match, by their ids."""
    named = client.list_definitions(name=text, limit=_PAGE)
    return {each.id: each for each in (*named, *_definitions_from(client, text))}


def _beginning(text: str) -> str | None:
    """The hexadecimal digits of a beginning of an id; None: it is none."""
    lower = text.lower()
    if _BEGINNING.fullmatch(lower) is None:
        return None
    digits = lower.replace("-", "")
    whole = str(UUID(digits.ljust(32, "0"))) if len(digits) < 32 else ""
    return digits if whole.startswith(lower) else None


def _definitions_from(client: Connected, text: str) -> Sequence[TaskDefinition]:
    if (begin := _beginning(text)) is None:
        return []
    page = client.list_definitions(
        after=from_id(UUID(begin.ljust(32, "0"))), limit=_SHOWN
    )
    return [each for each in page if each.id.hex.startswith(begin)]


def _instances_from(client: Connected, begin: str) -> Sequence[TaskInstance]:
    """The instances whose id begins so; searches all, as no list has this order."""
    found: list[TaskInstance] = []
    after = None
    for _ in range(_MOST_PAGES):
        page = client.list_instances(newest_first=True, after=after, limit=_PAGE)
        found += [each for each in page if each.id.hex.startswith(begin)]
        if (after := page.next) is None:
            return found
    raise ConfigurationError(
        f"there are more than {_PAGE * _MOST_PAGES:,} instances to look for the one"
        f" that begins with {begin}: give its whole id"
    )


def _only(text: str, lines: Mapping[UUID, str]) -> UUID | None:
    """The id of what matches; None: nothing does."""
    if len(lines) > 1:
        several = "".join(f"\n  {each}" for each in [*lines.values()][:_SHOWN])
        raise ConfigurationError(
            f"{shown(text)} may mean several: give more of the id{several}"
        )
    return next(iter(lines), None)


def _definition_line(definition: TaskDefinition) -> str:
    return (
        f"{definition.id} {definition.label or '-'}  {described(definition.trigger)},"
        f" in the queue {definition.queue}"
    )


def _instance_line(instance: TaskInstance) -> str:
    name = instance.definition.label or "-"
    return f"{instance.id} {name} {at(instance.execute_at)}"
