"""Finds what is meant by an id, a key or a name, or by the options that select."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from itertools import islice
from typing import Annotated, Any, TypeVar
from uuid import UUID

import typer

from go_scheduler.checks import parse_id
from go_scheduler.cli.options import (
    Connected,
    Limit,
    Metadata,
    Name,
    Queue,
    Time,
    instant_of,
    object_of,
)
from go_scheduler.cli.output import at, confirm, described
from go_scheduler.client.views import MOST_LISTED, Page, from_id
from go_scheduler.errors import (
    ConfigurationError,
    GoSchedulerError,
    TaskDefinitionNotFoundError,
)
from go_scheduler.formatting import shown
from go_scheduler.models import DefinitionState, State, TaskDefinition, TaskInstance
from go_scheduler.stores.filters import all_items

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


_Item = TypeVar("_Item")
_OF_DEFINITIONS = {each.value for each in DefinitionState}
_OF_INSTANCES = {each.value for each in State} - _OF_DEFINITIONS


@dataclass(frozen=True, kw_only=True)
class Listed:
    """The options that filter a list.

    Attributes:
        instances: Instances, newest first.
        state: Only those in this state, such as paused or failed.
        owner: Only those in the declared set of this owner.
        soonest_first: Sort by the next fire time.
        definition: Instances of this definition.
        since: Instances that are to run at this time or later.
    """

    instances: Annotated[bool, typer.Option("--instances", "-i")] = False
    name: Name = None
    queue: Queue = None
    state: str | None = None
    owner: str | None = None
    metadata: Metadata = None
    soonest_first: bool = False
    definition: str | None = None
    since: Time = None
    limit: Limit = 100


def definitions_of(
    client: Connected, listed: Listed
) -> tuple[list[TaskDefinition], bool]:
    """Read the definitions to list; also returns whether there are more.

    Raises:
        ConfigurationError: An option is wrong, or is for instances.
    """
    _refuse(listed, "definition", "since", with_instances=True)
    _refuse_state_of_instances(listed.state)
    filters: dict[str, Any] = {
        "name": listed.name,
        "queue": listed.queue,
        "owner": listed.owner,
        "state": listed.state,
        "metadata": object_of(listed.metadata, "--metadata"),
        "soonest_first": listed.soonest_first,
    }
    return pages(client.list_definitions, filters, listed.limit)


def instances_of(client: Connected, listed: Listed) -> tuple[list[TaskInstance], bool]:
    """Read the instances to list, newest first; also whether there are more.

    Raises:
        ConfigurationError: An option is wrong, or is for definitions.
    """
    _refuse(listed, "queue", "owner", "metadata", "soonest_first", with_instances=False)
    of = listed.definition
    filters: dict[str, Any] = {
        "definition_id": None if of is None else definition_meant(client, of),
        "name": listed.name,
        "state": listed.state,
        "since": instant_of(listed.since, "--since"),
        "newest_first": True,
    }
    return pages(client.list_instances, filters, listed.limit)


def pages(
    read: Callable[..., Page[_Item]], filters: dict[str, Any], limit: int | None
) -> tuple[list[_Item], bool]:
    """Read pages up to a limit; also returns whether there are more items.

    Args:
        read: Reads a page.
        filters: The arguments of ``read``.
        limit: The most items; None: all.
    """
    # One item beyond the limit shows that there are more.
    most = None if limit is None else limit + 1
    page = MOST_LISTED if most is None else min(MOST_LISTED, most)
    items = all_items(partial(read, **filters, limit=page))
    found = list(islice(items, most))
    return found[:limit], len(found) == most


def _refuse_state_of_instances(state: str | None) -> None:
    if state is None:
        return
    if state in _OF_INSTANCES:
        raise ConfigurationError(f"--state {state} is of use with --instances only")
    near = get_close_matches(state, _OF_INSTANCES | _OF_DEFINITIONS, n=1, cutoff=0.7)
    if near and near[0] in _OF_INSTANCES:
        raise ConfigurationError(
            f"no definition is {shown(state)}: did you mean --instances --state"
            f" {near[0]}?"
        )


def _refuse(listed: Listed, *names: str, with_instances: bool) -> None:
    for each in names:
        if getattr(listed, each):
            option = f"--{each.replace('_', '-')}"
            only = "with --instances" if with_instances else "without --instances"
            raise ConfigurationError(f"{option} is of use {only} only")


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The options that select definitions, instead of their ids.

    Attributes:
        everything: All definitions.
    """

    name: Name = None
    queue: Queue = None
    metadata: Metadata = None
    everything: Annotated[bool, typer.Option("--all")] = False

    def confirmed(
        self, client: Connected, given: list[str] | None, to: str, *, yes: bool
    ) -> list[UUID]:
        """The ids of the selected definitions, if the user agrees.

        Raises:
            ConfigurationError: Nothing is selected, or in two ways; or there is no
                terminal to ask.
            NoneMeantError: No definition matches.
        """
        ids = self._ids(client, given)
        confirm(f"{to} {len(ids)} definitions", len(ids), yes=yes)
        return ids

    def _ids(self, client: Connected, given: list[str] | None) -> list[UUID]:
        filters = {
            "name": self.name,
            "queue": self.queue,
            "metadata": object_of(self.metadata, "--metadata"),
        }
        filtered = any(each is not None for each in filters.values())
        if bool(given) + filtered + self.everything != 1:
            raise ConfigurationError(
                "say which: by their ids, or by --name, --queue and --metadata, or by"
                " --all"
            )
        if given:
            meant = [definition_meant(client, each) for each in given]
            return list(dict.fromkeys(meant))
        found = [each.id for each in pages(client.list_definitions, filters, None)[0]]
        if not found:
            raise NoneMeantError(self._none(client))
        return found

    def _none(self, client: Connected) -> str:
        """The message that no definition matches."""
        if self.everything:
            return "there is no definition"
        said = {
            "has the name": self.name,
            "is in the queue": self.queue,
            "has metadata that contains": self.metadata,
        }
        words = " and ".join(
            f"{words} {shown(each)}" for words, each in said.items() if each is not None
        )
        near = "" if self.name is None else near_name(client, self.name)
        return f"no definition {words}{near}"


def failed_meant(
    client: Connected, *, name: str | None, definition: str | None
) -> list[UUID]:
    """The ids of the failed instances of a name, a definition, or both.

    Raises:
        NoneMeantError: There is none.
        ConfigurationError: Several definitions match.
    """
    of = None if definition is None else definition_meant(client, definition)
    filters = {"definition_id": of, "name": name, "state": State.FAILED}
    found = [each.id for each in pages(client.list_instances, filters, None)[0]]
    if found:
        return found
    if name is not None and not _is_known(client, name):
        near = near_name(client, name)
        raise NoneMeantError(f"nothing has the name {shown(name)}{near}")
    given = [shown(each) for each in (definition, name) if each is not None]
    raise NoneMeantError(f"nothing of {' with the name '.join(given)} has failed")


def _is_known(client: Connected, name: str) -> bool:
    """Whether a definition has this name, or an instance of a deleted one."""
    definitions = client.list_definitions(name=name, limit=1)
    return bool(definitions or client.list_instances(name=name, limit=1))
