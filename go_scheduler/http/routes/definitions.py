"""The routes of definitions: create, read, change, pause, run and explain them."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote, unquote
from uuid import UUID, uuid4

from fastapi import APIRouter, Body, Header, Query, Request, Response
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.routing import Match

from go_scheduler.checks import parse_id
from go_scheduler.client.store_access import on_thread
from go_scheduler.errors import (
    ConfigurationError,
    ConflictError,
    TaskDefinitionNotFoundError,
)
from go_scheduler.http.access.authentication import (
    JobPauser,
    JobReader,
    JobWriter,
    RunReader,
    RunWriter,
)
from go_scheduler.http.access.caller import (
    Caller,
    check_declares,
    check_sees,
    is_restricted,
    seen_definition,
    seen_why,
)
from go_scheduler.http.bodies import (
    AuditAnswer,
    AuditQuery,
    BackfillAnswer,
    BackfillBody,
    DefinitionAnswer,
    DefinitionBody,
    DefinitionId,
    DefinitionPut,
    DefinitionsQuery,
    DeleteAnswer,
    InstanceAnswer,
    PageOf,
    PauseBody,
    PreviewAnswer,
    PreviewQuery,
    PutAnswer,
    RunBody,
    WhyAnswer,
    WhyQuery,
    if_given,
    of_field,
    read_object,
    warnings_of,
)
from go_scheduler.http.context import Context, Here
from go_scheduler.http.jobs import is_type
from go_scheduler.http.paths import set_location
from go_scheduler.http.problems import Problem, invalid, key_taken, mismatch
from go_scheduler.models import TaskDefinition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.types import Scope


IfMatch = Annotated[
    str | None,
    Header(
        description="Only if the definition is unchanged: the `ETag` of the read.",
        examples=['"3"'],
    ),
]
IfNoneMatch = Annotated[
    str | None,
    Header(description="`*`: only if there is no such definition yet.", examples=["*"]),
]

_TAG = r'(?:W/)?"[^"]*"'
_TAGS = re.compile(rf"\s*{_TAG}\s*(?:,\s*{_TAG}\s*)*")


def etag(definition: TaskDefinition) -> str:
    """The ETag of a definition: its revision."""
    return f'"{definition.revision}"'


def check_match(id: UUID, stored: TaskDefinition | None, given: str | None) -> None:
    """Check the If-Match of a request.

    Args:
        id: The id of the definition.
        stored: The stored definition; None: there is none.
        given: The If-Match of the request.

    Raises:
        ConflictError: The stored revision is another one.
        Problem: 422, the header is malformed.
    """
    if given is None:
        return
    if given.strip() == "*":
        matches = stored is not None
    elif _TAGS.fullmatch(given):
        matches = stored is not None and etag(stored) in re.findall(_TAG, given)
    else:
        raise invalid(
            "If-Match", 'it must be an ETag as it was answered, such as "3", or *'
        )
    if not matches:
        tags = re.findall(r'"(\d{1,18})"', given)
        raise ConflictError(
            id,
            expected=int(tags[0]) if tags else None,
            revision=None if stored is None else stored.revision,
        )


def is_to_be_new(given: str | None) -> bool:
    """Whether an If-None-Match allows only a new definition.

    Raises:
        Problem: 422, the header is not ``*``.
    """
    if given is None:
        return False
    if given.strip() != "*":
        raise invalid("If-None-Match", "it must be *: only if there is none yet")
    return True


_ATTEMPTS = 5
_MOST_AUDITED = 100_000


async def stored_definition(
    here: Context, caller: Caller, id: UUID
) -> TaskDefinition | None:
    """A definition; None: there is none.

    Raises:
        TaskDefinitionNotFoundError: There is one that the caller may not see.
    """
    try:
        definition = await here.client.aget_definition(id)
    except TaskDefinitionNotFoundError:
        return None
    if not caller.sees(definition):
        raise TaskDefinitionNotFoundError(id)
    return definition


async def put(
    here: Context,
    caller: Caller,
    definition: TaskDefinition,
    *,
    owner: str | None,
    stored: TaskDefinition | None,
) -> TaskDefinition:
    """Put a definition, in the declared set of its owner.

    Args:
        here: The context.
        caller: The caller.
        definition: The new definition.
        owner: The owner in the request; None: the owner of the stored definition, or
            the caller's only owner.
        stored: The stored definition; None: there is none.

    Raises:
        Problem: 403, the caller may not put it there; 409, the set has versions, or
            the server runs the type; 422, the owner is another one.
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
        # Somebody else has put it meanwhile, perhaps one whom the caller may not see.
        for each in await here.client.alist_definitions(ids=[definition.id]):
            if not caller.sees(each):
                raise TaskDefinitionNotFoundError(each.id) from None
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
    """Put a change of a stored definition, and repeat it after a conflict.

    Args:
        once: Reads the definition, and puts its change.
        again: Whether to repeat it: the request names no revision.

    Raises:
        ConflictError: The request names a revision, or there are too many conflicts.
    """
    for _ in range(_ATTEMPTS - 1 if again else 0):
        with suppress(ConflictError):
            return await once()
    return await once()


def patched(stored: TaskDefinition, patch: Mapping[str, Any]) -> DefinitionPut:
    """Apply a merge patch (RFC 7396) to a definition.

    A trigger is replaced as a whole.

    Raises:
        Problem: 422, the result is wrong, or a patch cannot change this field.
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
        raise mismatch(error) from None


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
    """Refuse to change a type of the server, which all callers use."""
    for name, task in here.job_types.tasks.items():
        if task.definition.id == definition.id:
            raise Problem(
                409,
                "type",
                "The type is not to be changed here",
                f"the server runs the type {name!r} itself: POST its jobs to /v1/jobs",
            )


# What a path may have as it is.
_UNQUOTED = "/:@!$&'()*+,;="


class _Route(APIRoute):
    """Matches a path as it was sent: a key may have slashes, written as ``%2F``."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether a request is for this route, and the parameters of its path."""
        sent: bytes = scope.get("raw_path") or b""
        if b"%" not in sent:
            return super().matches(scope)
        root = quote(scope.get("root_path", ""), safe=_UNQUOTED)
        as_sent = {**scope, "path": sent.decode("latin-1"), "root_path": root}
        match, found = super().matches(as_sent)
        if "id" in (given := found.get("path_params", {})):
            given["id"] = unquote(given["id"])
        return match, found


router = APIRouter(prefix="/v1/definitions", tags=["definitions"], route_class=_Route)

_PATCH = {"queue": "slow", "retry": {"max_attempts": 3}, "lock": None}


@router.post("", status_code=201, responses={200: {"model": PutAnswer}})
async def create_definition(
    body: DefinitionBody,
    here: Here,
    caller: JobWriter,
    request: Request,
    response: Response,
) -> PutAnswer:
    """Create a definition.

    If another definition has its id, that is a conflict. If the same definition exists
    already, the answer is 200, so the request may be repeated.
    """
    now = here.clock.now()
    definition = await on_thread(body.definition, now, revision=0)
    if definition.named and is_restricted(caller):
        # The caller must not learn whether somebody else has the id.
        await stored_definition(here, caller, definition.id)
    try:
        made = await put(here, caller, definition, owner=body.owner, stored=None)
    except ConflictError:
        made = await seen_definition(here, caller, definition.id)
        if not made.is_same(definition):
            raise
        response.status_code = 200
    set_location(request, response, f"/v1/definitions/{made.id}")
    return _put(made, now, response)


@router.put("/{id}", responses={201: {"model": PutAnswer}})
async def put_definition(
    id: DefinitionId,
    body: DefinitionPut,
    here: Here,
    caller: JobWriter,
    request: Request,
    response: Response,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> PutAnswer:
    """Create a definition, or replace the one with this id or key.

    The answer of a read may be changed and sent back. Its `revision`, if it has one,
    must be the stored one, as with `If-Match`. If the definition exists, its `paused`
    and `note` stay as they are.
    """
    if body.id not in (None, id):
        raise invalid("id", "it must be that of the path, or be left out")
    path = request.path_params["id"]
    if body.key is None and parse_id(path) is None:
        body = body.model_copy(update={"key": path})
    now, is_new = here.clock.now(), is_to_be_new(if_none_match)
    is_there = False

    async def put_it() -> TaskDefinition:
        nonlocal is_there
        stored = await stored_definition(here, caller, id)
        is_there = stored is not None
        check_match(id, stored, if_match)
        revision = 0 if is_new else body.revision
        if stored is not None and if_match is not None and not is_new:
            revision = stored.revision
        elif revision is None and is_restricted(caller):
            # Somebody else may have put another one meanwhile.
            revision = 0 if stored is None else stored.revision
        definition = await on_thread(body.definition, now, id=id, revision=revision)
        return await put(here, caller, definition, owner=body.owner, stored=stored)

    said = is_new or if_match is not None or body.revision is not None
    made = await put_again(put_it, again=not said)
    if not is_there:
        response.status_code = 201
        set_location(request, response, f"/v1/definitions/{id}")
    return _put(made, now, response)


@router.patch("/{id}")
async def change_definition(
    id: DefinitionId,
    patch: Annotated[
        dict[str, Any],
        Body(media_type="application/merge-patch+json", examples=[_PATCH]),
    ],
    here: Here,
    caller: JobWriter,
    response: Response,
    if_match: IfMatch = None,
) -> PutAnswer:
    """Change some fields of a definition, by a merge patch (RFC 7396).

    Fields that are left out stay; null resets a field to its default. A trigger is
    replaced as a whole.
    """
    now = here.clock.now()

    async def change() -> TaskDefinition:
        stored = await seen_definition(here, caller, id)
        check_match(id, stored, if_match)
        body = await on_thread(patched, stored, patch)
        if body.id != id:
            raise invalid("id", "the id of a definition cannot be changed")
        definition = await on_thread(
            body.definition, now, id=id, revision=stored.revision
        )
        return await put(here, caller, definition, owner=body.owner, stored=stored)

    made = await put_again(change, again=if_match is None)
    return _put(made, now, response)


@router.get("")
async def list_definitions(
    asked: Annotated[DefinitionsQuery, Query()], here: Here, caller: JobReader
) -> PageOf[DefinitionAnswer]:
    """List definitions by their ids or next fire times, a page at a time."""
    if asked.queue is not None:
        caller.check_queue(asked.queue)
    contained = if_given(asked.metadata, lambda it: read_object("metadata", it))
    query = dict(asked) | {"metadata": contained}
    with of_field("", tuple(DefinitionsQuery.model_fields)):
        page = await here.client.alist_definitions(
            **query, queues=caller.queues, owners=caller.owners
        )
    answers = await on_thread(lambda: [DefinitionAnswer.of(each) for each in page])
    return PageOf(items=answers, next=page.next)


@router.get("/{id}")
async def get_definition(
    id: DefinitionId, here: Here, caller: JobReader, response: Response
) -> DefinitionAnswer:
    """Read a definition."""
    return _one(await seen_definition(here, caller, id), response)


@router.delete("/{id}")
async def delete_definition(
    id: DefinitionId, here: Here, caller: JobWriter
) -> DeleteAnswer:
    """Delete a definition, and its instances that have not started."""
    await check_sees(here, caller, id)
    deleted = await here.client.adelete_definition(id)
    if deleted is None:
        raise TaskDefinitionNotFoundError(id)
    return DeleteAnswer(running=deleted.running)


@router.post("/{id}/pause")
async def pause(
    id: DefinitionId,
    here: Here,
    caller: JobPauser,
    response: Response,
    body: PauseBody | None = None,
) -> DefinitionAnswer:
    """Pause a definition; none of its instances starts until it is resumed."""
    await check_sees(here, caller, id)
    with of_field("", ("note",)):
        paused = await here.client.apause(id, None if body is None else body.note)
    return _one(paused, response)


@router.post("/{id}/resume")
async def resume(
    id: DefinitionId, here: Here, caller: JobPauser, response: Response
) -> DefinitionAnswer:
    """End the pause of a definition."""
    await check_sees(here, caller, id)
    return _one(await here.client.aresume(id), response)


@router.post("/{id}/run", status_code=201, responses={200: {"model": InstanceAnswer}})
async def run_now(
    id: DefinitionId,
    here: Here,
    caller: RunWriter,
    request: Request,
    response: Response,
    body: RunBody | None = None,
) -> InstanceAnswer:
    """Run a definition once more, now or at a time.

    If an instance has the `key` already, the answer is 200 with that instance.
    """
    definition = await seen_definition(here, caller, id)
    body = body or RunBody.model_validate({})
    payload = await here.job_types.payload_for(definition, caller, body.payload)
    instance_id = uuid4()
    with of_field("", tuple(RunBody.model_fields), otherwise="payload"):
        given = dict(body) | {"payload": payload}
        instance = await here.client.arun_now(id, **given, id=instance_id)
    if not caller.sees(instance.definition):
        raise key_taken()
    if instance.id != instance_id:
        response.status_code = 200
    set_location(request, response, f"/v1/instances/{instance.id}")
    return InstanceAnswer.of(instance)


@router.post("/{id}/backfill")
async def backfill(
    id: DefinitionId, body: BackfillBody, here: Here, caller: RunWriter
) -> BackfillAnswer:
    """Run the fire times of a past period that have no instance."""
    await check_sees(here, caller, id)
    with of_field("", tuple(BackfillBody.model_fields)):
        found = await here.client.abackfill(
            id, body.start, body.end, overlap=body.overlap, limit=body.limit
        )
    return BackfillAnswer.of(found)


@router.get("/{id}/preview")
async def preview_definition(
    id: DefinitionId,
    asked: Annotated[PreviewQuery, Query()],
    here: Here,
    caller: JobReader,
) -> PreviewAnswer:
    """The next fire times of a definition's trigger."""
    definition = await seen_definition(here, caller, id)
    after = asked.after or here.clock.now()
    return await on_thread(PreviewAnswer.computed, definition.trigger, asked.n, after)


@router.get("/{id}/why")
async def why_definition(
    id: DefinitionId, asked: Annotated[WhyQuery, Query()], here: Here, caller: RunReader
) -> WhyAnswer:
    """What happened or will happen to a definition at an instant, and the reason."""
    await check_sees(here, caller, id)
    return WhyAnswer.of(await seen_why(here, caller, id, asked.at))


@router.get("/{id}/audit")
async def audit_definition(
    id: DefinitionId,
    asked: Annotated[AuditQuery, Query()],
    here: Here,
    caller: RunReader,
) -> AuditAnswer:
    """What became of every fire time of a definition in a past period.

    If there are more than 100,000, the answer is an `error`.
    """
    await check_sees(here, caller, id)

    def audited() -> AuditAnswer:
        kept = if_given(asked.retention, lambda it: timedelta(seconds=it))
        [found] = here.client.audit(
            asked.since,
            asked.until,
            ids=[id],
            retention=kept,
            late=timedelta(seconds=asked.late),
            unchanged_since=asked.unchanged_since,
            limit=_MOST_AUDITED,
            machines="admin" in caller.scopes,
        )
        return AuditAnswer.of(found)

    with of_field("", tuple(AuditQuery.model_fields)):
        return await on_thread(audited)


def _one(definition: TaskDefinition, response: Response) -> DefinitionAnswer:
    response.headers["ETag"] = etag(definition)
    return DefinitionAnswer.of(definition)


def _put(definition: TaskDefinition, now: datetime, response: Response) -> PutAnswer:
    response.headers["ETag"] = etag(definition)
    answer = DefinitionAnswer.of(definition)
    return PutAnswer(**dict(answer), warnings=warnings_of(definition.trigger, now))
