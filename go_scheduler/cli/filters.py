"""The options that select definitions and instances."""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from itertools import islice
from typing import Annotated, Any, TypeVar
from uuid import UUID

import typer

from go_scheduler.cli.connection import Connected
from go_scheduler.cli.options import (
    Limit,
    Metadata,
    Name,
    Queue,
    instant_of,
    object_of,
    text,
)
from go_scheduler.cli.output import confirm
from go_scheduler.cli.resolve import NoneMeantError, definition_meant, near_name
from go_scheduler.client.arguments import MOST_LISTED, Page
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown
from go_scheduler.models import DefinitionState, State, TaskDefinition, TaskInstance
from go_scheduler.stores.filters import all_items

_Item = TypeVar("_Item")
_OF_DEFINITIONS = {each.value for each in DefinitionState}
_OF_INSTANCES = {each.value for each in State} - _OF_DEFINITIONS


@dataclass(frozen=True, kw_only=True)
class Listed:
    """The options that filter a list."""

    instances: Annotated[
        bool, typer.Option("--instances", "-i", help="Instances, newest first.")
    ] = False
    name: Name = None
    queue: Queue = None
    state: Annotated[
        str | None, text("Only those in this state, such as paused or failed.")
    ] = None
    owner: Annotated[
        str | None, text("Only those in the declared set of this owner.")
    ] = None
    metadata: Metadata = None
    soonest_first: Annotated[
        bool, typer.Option("--soonest-first", help="Sort by the next fire time.")
    ] = False
    definition: Annotated[str | None, text("Instances of this definition.")] = None
    since: Annotated[
        str | None,
        text("Instances that are to run at this time or later.", metavar="TIME"),
    ] = None
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
    """The options that select definitions, instead of their ids."""

    name: Name = None
    queue: Queue = None
    metadata: Metadata = None
    everything: Annotated[bool, typer.Option("--all", help="All definitions.")] = False

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
