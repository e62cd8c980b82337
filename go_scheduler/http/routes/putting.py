"""How definitions come into the store by HTTP, and whose they are."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from go_scheduler.errors import (
    ConfigurationError,
    ConflictError,
    TaskDefinitionNotFoundError,
)
from go_scheduler.http.bodies.definitions import DefinitionBody, DefinitionPut
from go_scheduler.http.jobs.known_types import is_type
from go_scheduler.http.problems import Problem, invalid
from go_scheduler.http.routes.seen import check_declares, is_restricted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from uuid import UUID

    from go_scheduler.http.access.caller import Caller
    from go_scheduler.http.context import Context
    from go_scheduler.models import TaskDefinition

_ATTEMPTS = 5


async def stored_definition(
    here: Context, caller: Caller, id: UUID
) -> TaskDefinition | None:
    """A definition; None: there is none.

    Raises:
        TaskDefinitionNotFoundError: There is one that the caller may not know of.
    """
    with suppress(TaskDefinitionNotFoundError):
        definition = await here.client.aget_definition(id)
        if not caller.sees(definition):
            raise _not_theirs(id)
        return definition
    return None


async def put(
    here: Context,
    caller: Caller,
    definition: TaskDefinition,
    *,
    owner: str | None,
    stored: TaskDefinition | None,
) -> TaskDefinition:
    """Put a definition, in the set of whose it is.

    Args:
        here: The context.
        caller: Who sends it.
        definition: As it is to be.
        owner: Whose it is to be, as was sent; None: that of the stored one, or of a
            caller who has one.
        stored: The one that is there; None: there is none.

    Raises:
        Problem: 403, the caller may not have it there; 409, what has versions, or is of
            a type that the server runs; 422, it is another's.
    """
    caller.check_queue(definition.queue)
    if is_restricted(caller):
        _check_is_no_type_here(here, definition)
        if is_type(definition) and not (stored is not None and is_type(stored)):
            check_declares(caller)
    if stored is not None:
        if owner not in (None, stored.owner):
            raise invalid("owner", "whose a definition is cannot be changed")
        return await here.client.aschedule(definition)
    owner = caller.owner_for(owner)
    if owner is None:
        return await here.client.aschedule(definition)
    named = replace(definition, named=True)
    try:
        put = await here.client.adeclare([named], owner=owner, removed="keep")
    except ConfigurationError:
        # It is somebody else's by now, perhaps one's of whom nothing is to be said.
        for each in await here.client.alist_definitions(ids=[definition.id]):
            if not caller.sees(each):
                raise _not_theirs(each.id) from None
        raise
    if not put:
        raise Problem(
            409,
            "declared",
            "The owner's set has versions",
            f"what {owner} has is declared by versions, and by nothing else",
        )
    return put[0]


async def put_again(
    once: Callable[[], Awaitable[TaskDefinition]], *, again: bool
) -> TaskDefinition:
    """Put what is made of the stored definition, anew if somebody else changes that.

    Args:
        once: Reads it, and puts what is made of it.
        again: Whether that may be done again: nobody has said of which revision it is.

    Raises:
        ConflictError: It may not, or it is changed again and again.
    """
    for _ in range(_ATTEMPTS - 1 if again else 0):
        with suppress(ConflictError):
            return await once()
    return await once()


def patched(stored: TaskDefinition, patch: Mapping[str, Any]) -> DefinitionPut:
    """What would have to be sent to change a definition by a merge patch (RFC 7396).

    A trigger is replaced as a whole.

    Raises:
        RequestValidationError: It would be none.
        Problem: 422, it changes what is not changed so.
    """
    document = DefinitionBody.of(stored)
    for each in ("paused", "note"):
        if each in patch and patch[each] != document[each]:
            raise invalid(each, "POST to its /pause or /resume changes that")
    merged = _merged(document, {**patch, "trigger": None})
    merged["trigger"] = patch.get("trigger") or document["trigger"]
    try:
        return DefinitionPut.model_validate(merged)
    except ValidationError as error:
        found = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
        raise RequestValidationError(found) from None


def _merged(old: Any, patch: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            merged[name] = _merged(merged.get(name), value)
        else:
            merged[name] = value
    return merged


def _check_is_no_type_here(here: Context, definition: TaskDefinition) -> None:
    """Refuse what would have everybody's jobs of a type go where the caller says."""
    for name, task in here.job_types.tasks.items():
        if task.definition.id == definition.id:
            raise Problem(
                409,
                "type",
                "The type is not to be changed here",
                f"the server runs the type {name!r} itself: POST its jobs to /v1/jobs",
            )


def _not_theirs(id: UUID) -> Problem:
    # Not the error for one that is not there: this one is, and nothing may be put.
    return Problem(
        404,
        "no-definition",
        "No such definition",
        f"no task definition has the id {id}",
    )
