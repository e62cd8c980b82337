"""Reads for a caller; what ``Caller.sees`` does not allow is answered as not found."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from go_scheduler.errors import TaskDefinitionNotFoundError, TaskInstanceNotFoundError
from go_scheduler.http.problems import not_allowed

if TYPE_CHECKING:
    from datetime import datetime

    from go_scheduler.client import Client
    from go_scheduler.http.access.caller import Caller
    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.why.answer import Why


class Here(Protocol):
    """The context of routes, or of pages, which has the client."""

    @property
    def client(self) -> Client:
        """The client of the store."""
        ...


def is_restricted(caller: Caller) -> bool:
    """Whether a caller is restricted to some queues or owners."""
    return caller.queues is not None or caller.owners is not None


def check_unrestricted(caller: Caller) -> None:
    """Refuse a restricted caller: nodes serve the queues of all.

    Raises:
        Problem: 403.
    """
    if is_restricted(caller):
        raise not_allowed(
            "restricted",
            "nodes serve the queues of all, and are not shown to those who are"
            " restricted to some queues or owners",
        )


def check_declares(caller: Caller) -> None:
    """Refuse a restricted caller without an owner: the types would be nobody's.

    Raises:
        Problem: 403.
    """
    if is_restricted(caller) and caller.owners is None:
        raise not_allowed(
            "owner",
            "a type is used by all: who is restricted to queues declares types only if"
            " they are restricted to an owner as well, whose they are",
        )


async def seen_definition(here: Here, caller: Caller, id: UUID) -> TaskDefinition:
    """Read a definition that the caller may see.

    Raises:
        TaskDefinitionNotFoundError: There is none.
    """
    definition = await here.client.aget_definition(id)
    if not caller.sees(definition):
        raise TaskDefinitionNotFoundError(id)
    return definition


async def seen_instance(here: Here, caller: Caller, id: UUID) -> TaskInstance:
    """Read an instance that the caller may see.

    Raises:
        TaskInstanceNotFoundError: There is none.
    """
    instance = await here.client.aget_instance(id)
    if not caller.sees(instance.definition):
        raise TaskInstanceNotFoundError(id)
    return instance


async def check_sees(here: Here, caller: Caller, id: UUID) -> None:
    """Refuse a definition that the caller may not see; reads only if restricted.

    Raises:
        TaskDefinitionNotFoundError: The caller may not see it.
    """
    if is_restricted(caller):
        await seen_definition(here, caller, id)


async def seen_why(here: Here, caller: Caller, id: UUID, at: datetime | None) -> Why:
    """Explain something, without secrets: holders of locks, and hosts of nodes."""
    knows_nodes = "admin" in caller.scopes
    why = await here.client.awhy(id, at, machines=knows_nodes)
    if not knows_nodes:
        why = replace(why, node=None)
    if why.instance is not None and not caller.sees(why.instance.definition):
        text = "What there is to say is about an instance in another queue."
        return replace(why, instance=None, holder=None, reason=None, text=text)
    if why.holder is None or caller.sees(why.holder.definition):
        return why
    text = "It is due, and waits until an instance that is another's has ended."
    return replace(why, holder=None, text=text)
