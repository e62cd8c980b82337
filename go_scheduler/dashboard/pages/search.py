"""Search: by an id, by a key, or by how a name begins."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID

from go_scheduler.dashboard import request
from go_scheduler.dashboard.request import page
from go_scheduler.dashboard.visibility import LISTED, theirs
from go_scheduler.errors import TaskDefinitionNotFoundError, TaskInstanceNotFoundError
from go_scheduler.http.routes.visibility import seen_definition, seen_instance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.responses import Response

    from go_scheduler.dashboard.request import PageRequest
    from go_scheduler.models import TaskDefinition, TaskInstance


async def search(visit: PageRequest) -> Response:
    """Search by a text. An id leads to the page of its definition or instance."""
    text = request.text(visit.query, "q")
    definitions: Sequence[TaskDefinition] = []
    instances: Sequence[TaskInstance] = []
    if text is not None:
        path = await _of_id(visit, text)
        if path is not None:
            return visit.go(path)
        of = theirs(visit.caller)
        definitions = await visit.client.asearch_names(text, **of, limit=LISTED)
        instances = await visit.client.asearch_key(text, **of, limit=LISTED)
    return visit.show(
        "search.html",
        text=text,
        definitions=definitions,
        instances=instances,
        is_cut=len(definitions) == LISTED,
        now=visit.now,
    )


async def _of_id(visit: PageRequest, text: str) -> str | None:
    """The path of the page for an id; None: it is no id, or nothing has it."""
    try:
        id = UUID(text)
    except ValueError:
        return None
    with suppress(TaskDefinitionNotFoundError):
        definition = await seen_definition(visit.here, visit.caller, id)
        return f"/definitions/{definition.id}"
    with suppress(TaskInstanceNotFoundError):
        instance = await seen_instance(visit.here, visit.caller, id)
        return f"/instances/{instance.id}"
    return None


ROUTES = [page("/search", search)]
