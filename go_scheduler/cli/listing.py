"""The options that choose what is listed, and the pages that are read for it."""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, TypeVar

import typer

from go_scheduler.cli.identifying import definition_meant
from go_scheduler.cli.options import Limit, Metadata, Name, Queue, text
from go_scheduler.cli.reading import instant_of, object_of
from go_scheduler.cli.where import Connected
from go_scheduler.client.arguments import MOST_LISTED
from go_scheduler.client.pages import Page
from go_scheduler.errors import ConfigurationError
from go_scheduler.models import DefinitionState, State, TaskDefinition, TaskInstance
from go_scheduler.shown import shown

_Item = TypeVar("_Item")
_OF_DEFINITIONS = {each.value for each in DefinitionState}
_OF_INSTANCES = {each.value for each in State} - _OF_DEFINITIONS


@dataclass(frozen=True, kw_only=True)
class Listed:
    """The options that choose what is listed."""

    instances: Annotated[
        bool, typer.Option("--instances", "-i", help="Instances, newest first.")
    ] = False
    name: Name = None
    queue: Queue = None
    state: Annotated[str | None, text("In this state, such as paused or failed.")] = (
        None
    )
    owner: Annotated[str | None, text("In the declared set of this owner.")] = None
    metadata: Metadata = None
    soonest_first: Annotated[
        bool, typer.Option("--soonest-first", help="Those that fire soonest first.")
    ] = False
    definition: Annotated[str | None, text("Instances of this definition.")] = None
    since: Annotated[
        str | None, text("Instances that are to run from then on.", metavar="TIME")
    ] = None
    limit: Limit = 100


def definitions_of(
    client: Connected, listed: Listed
) -> tuple[list[TaskDefinition], bool]:
    """The definitions to list, and whether there are more.

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
    """The instances to list, the newest first, and whether there are more.

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
    """As many as are asked for, and whether there are more.

    Args:
        read: Reads a page.
        filters: What it is given.
        limit: How many are asked for; None: all.
    """
    found: list[_Item] = []
    after = None
    while limit is None or len(found) <= limit:
        # One more than is asked for shows whether there are more.
        room = MOST_LISTED if limit is None else limit + 1 - len(found)
        page = read(**filters, after=after, limit=min(MOST_LISTED, room))
        found += page
        if (after := page.next) is None:
            return found[:limit], False if limit is None else len(found) > limit
    return found[:limit], True


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
