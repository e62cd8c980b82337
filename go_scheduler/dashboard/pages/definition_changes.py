"""What is changed from the page of a definition, each by a form of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from go_scheduler.checks import PRIORITIES
from go_scheduler.dashboard import asked
from go_scheduler.dashboard.routing import change
from go_scheduler.http.problems import invalid
from go_scheduler.http.routes.seen import seen_definition

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from starlette.responses import Response

    from go_scheduler.dashboard.visit import Visit
    from go_scheduler.models import TaskDefinition

MOST_BACKFILLED = 1_000
"""The most fire times that one press runs again."""


async def pause(visit: Visit) -> Response:
    """Pause it: nothing of it starts until it is resumed."""
    found = await _definition(visit)
    await visit.client.apause(found.id, asked.text(visit.form, "note"))
    return _back(visit, found.id, "paused")


async def resume(visit: Visit) -> Response:
    """End its pause."""
    found = await _definition(visit)
    await visit.client.aresume(found.id)
    return _back(visit, found.id, "resumed")


async def run(visit: Visit) -> Response:
    """Run it once more, now; its instance is shown."""
    found = await _definition(visit)
    payload = asked.json_object(visit.form, "payload")
    key = asked.text(visit.form, "key")
    instance = await visit.client.arun_now(found.id, payload=payload, key=key)
    return visit.go(f"/instances/{instance.id}")


async def backfill(visit: Visit) -> Response:
    """Run what it has not run, for a time that has passed."""
    found = await _definition(visit)
    start, end = _required(visit, "from"), _required(visit, "until")
    await visit.client.abackfill(found.id, start, end, limit=MOST_BACKFILLED)
    return _back(visit, found.id, "backfilled")


async def edit(visit: Visit) -> Response:
    """Change its queue, its priority and its metadata, unless it has been changed."""
    found = await _definition(visit)
    form = visit.form
    revision = _number(visit, "revision", range(2**63))
    queue = asked.text(form, "queue") or found.queue
    visit.caller.check_queue(queue)
    changed = replace(
        found,
        queue=queue,
        priority=_number(visit, "priority", PRIORITIES),
        metadata=asked.json_object(form, "metadata") or {},
        revision=revision,
    )
    await visit.client.aschedule(changed)
    return _back(visit, found.id, "edited")


async def _definition(visit: Visit) -> TaskDefinition:
    id: UUID = visit.request.path_params["id"]
    return await seen_definition(visit.here, visit.caller, id)


def _back(visit: Visit, id: UUID, done: str) -> Response:
    return visit.go(f"/definitions/{id}", done=done)


def _required(visit: Visit, name: str) -> datetime:
    at = asked.instant(visit.form, name)
    if at is None:
        raise invalid(name, "say when")
    return at


def _number(visit: Visit, name: str, numbers: range) -> int:
    text = asked.text(visit.form, name) or ""
    if text.isascii() and text.isdigit() and len(text) < 20 and int(text) in numbers:
        return int(text)
    raise invalid(name, f"it must be a number from {numbers[0]} to {numbers[-1]}")


def _at(path: str) -> str:
    return f"/definitions/{{id:uuid}}/{path}"


ROUTES = [
    change(_at("pause"), pause, needs="jobs:pause"),
    change(_at("resume"), resume, needs="jobs:pause"),
    change(_at("run"), run, needs="runs:write"),
    change(_at("backfill"), backfill, needs="runs:write"),
    change(_at("edit"), edit, needs="jobs:write"),
]
