"""Routes of job types: types that the server runs, and types for workers."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from go_scheduler.errors import ConfigurationError
from go_scheduler.handlers.job_types import MARK
from go_scheduler.handlers.registry import task_id
from go_scheduler.http.access.authentication import JobReader, JobWriter
from go_scheduler.http.access.caller import Caller, check_declares, is_restricted
from go_scheduler.http.bodies import PageQuery
from go_scheduler.http.context import Context, Here
from go_scheduler.http.jobs import (
    TypeAnswer,
    TypeBody,
    TypesAnswer,
    check_type_name,
    is_type,
    no_type,
)
from go_scheduler.http.problems import Problem
from go_scheduler.models import TaskDefinition

router = APIRouter(prefix="/v1", tags=["types"])

Type = Annotated[str, Path(description="The name of the type.")]


@router.get("/types")
async def list_types(
    here: Here,
    caller: JobReader,
    asked: Annotated[PageQuery, Query()],
) -> TypesAnswer:
    """List types: first the types that the server runs, then the declared types."""
    own = here.job_types.tasks
    items: list[TypeAnswer] = []
    if asked.after is None:
        known = await here.job_types.find_all(sorted(own))
        items += map(here.job_types.answer, known.values())
    page = await here.client.alist_definitions(
        metadata={MARK: {}},
        queues=caller.queues,
        owners=caller.owners,
        after=asked.after,
        limit=asked.limit,
    )
    items += [
        TypeAnswer.of(each) for each in page if each.name not in own and is_type(each)
    ]
    return TypesAnswer(items=items, next=page.next)


@router.get("/types/{type:path}")
async def get_type(here: Here, caller: JobReader, type: Type) -> TypeAnswer:
    """Read a type."""
    if type in here.job_types.tasks:
        return here.job_types.answer(await here.job_types.find(type))
    stored = await _stored(here, type)
    if stored is None or not caller.sees(stored):
        raise no_type(type)
    return TypeAnswer.of(stored)


@router.put(
    "/types/{type:path}",
    responses={201: {"model": TypeAnswer, "description": "The type is new."}},
)
async def put_type(
    here: Here,
    caller: JobWriter,
    type: Type,
    body: TypeBody,
    response: Response,
) -> TypeAnswer:
    """Declare a type for workers, or change it."""
    definition = body.definition(type)
    caller.check_queue(definition.queue)
    check_declares(caller)
    owner = caller.owner_for(body.owner)
    there = await _declared(here, caller, type)
    if is_restricted(caller):
        # Another caller may have put the type meanwhile.
        revision = 0 if there is None else there.revision
        definition = replace(definition, revision=revision)
    try:
        if owner is None:
            put = [await here.client.aschedule(definition)]
        else:
            put = await here.client.adeclare([definition], owner=owner, removed="keep")
    except ConfigurationError:
        # Another caller has taken the name meanwhile, or the owner is invalid.
        await _declared(here, caller, type)
        raise
    if not put:
        raise _taken(type, f"the set of {owner!r} is declared with versions")
    here.job_types.forget(type)
    response.status_code = 201 if there is None else 200
    return TypeAnswer.of(put[0])


@router.delete("/types/{type:path}", status_code=204, response_model=None)
async def delete_type(here: Here, caller: JobWriter, type: Type) -> None:
    """Delete a declared type, and its jobs that have not started."""
    there = await _declared(here, caller, type)
    if there is None:
        raise no_type(type)
    await here.client.adelete_definition(there.id)
    here.job_types.forget(type)


async def _stored(here: Context, type: str) -> TaskDefinition | None:
    check_type_name(type)
    found = await here.client.alist_definitions(ids=[task_id(type)])
    return found[0] if found else None


async def _declared(here: Context, caller: Caller, type: str) -> TaskDefinition | None:
    """The definition of a type that the caller may change, if there is one.

    Raises:
        Problem: 409, the caller may not change the type.
    """
    if type in here.job_types.tasks:
        raise _taken(type, "the server runs it itself")
    stored = await _stored(here, type)
    if stored is None:
        return None
    if not (MARK in stored.metadata and caller.sees(stored)):
        raise _taken(type, "it is a task of a program, or somebody else's")
    return stored


def _taken(type: str, why: str) -> Problem:
    return Problem(
        409,
        "type",
        "The type is not to be changed here",
        f"the type {type!r} cannot be changed here: {why}",
    )
