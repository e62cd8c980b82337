"""The list of definitions, their strip of time, the page of each, and its forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from go_scheduler.checks import PRIORITIES
from go_scheduler.client.awaitable import on_thread
from go_scheduler.dashboard import request
from go_scheduler.dashboard.request import LISTED, change, page, theirs
from go_scheduler.dashboard.timeline import (
    MOST_HEAPS,
    ZOOMS,
    TimelineRow,
    Window,
    read_row,
    zoom_of,
)
from go_scheduler.dashboard.words import fires, span
from go_scheduler.formatting import shown
from go_scheduler.http.problems import invalid
from go_scheduler.http.routes.visibility import seen_definition, seen_why
from go_scheduler.json import write_instant
from go_scheduler.models import DefinitionState, TaskDefinition
from go_scheduler.models.definition import POLICIES
from go_scheduler.policies import CatchUp, RetryPolicy
from go_scheduler.triggers.previews import PreviewedTime, preview
from go_scheduler.triggers.trigger_timeouts import ask

if TYPE_CHECKING:
    from uuid import UUID

    from starlette.responses import Response

    from go_scheduler.dashboard.request import PageRequest
    from go_scheduler.why.answer import Why


MOST_ROWS = 10
"""The most definitions on one strip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """A strip with its definitions.

    Attributes:
        window: The part of time.
        rows: One for each definition.
        path: The page that it is on.
        of: The query of that page besides the window; None: there is none.
    """

    window: Window
    rows: Sequence[TimelineRow]
    path: str
    of: str | None = None

    def link(self, visit: PageRequest, window: Window) -> str:
        """The link to the same strip with another window."""
        start = write_instant(window.start)
        return visit.link(self.path, of=self.of, zoom=window.zoom, start=start)

    def zooms(self) -> list[Window]:
        """The window at each length."""
        return [self.window.at_zoom(each) for each in ZOOMS]


async def read_strip(
    visit: PageRequest,
    definitions: Sequence[TaskDefinition],
    *,
    path: str,
    of: str | None = None,
) -> Strip:
    """Read a strip of some definitions, with the window of the query.

    Args:
        visit: The request.
        definitions: The definitions.
        path: The page that the strip is on.
        of: The query of that page besides the window.
    """
    now = visit.now
    query = visit.query
    given = request.word(query, "zoom", ZOOMS)
    start = request.instant(query, "start")
    heaps = MOST_HEAPS // max(1, len(definitions))

    def read() -> Strip:
        zoom = given or zoom_of(definitions, now)
        window = Window.around(now, zoom)
        if start is not None:
            window = Window(start=start, zoom=zoom)
        rows = [
            read_row(
                visit.client,
                each,
                window,
                now=now,
                heaps=heaps,
                queues=visit.caller.queues,
            )
            for each in definitions
        ]
        return Strip(window=window, rows=rows, path=path, of=of)

    return await on_thread(read)


async def strip(visit: PageRequest) -> Response:
    """The definitions in the query, or those that fire next."""
    given = request.ids(visit.query, "of", most=MOST_ROWS)
    definitions: Sequence[TaskDefinition]
    if given:
        definitions = [
            await seen_definition(visit.here, visit.caller, each) for each in given
        ]
        of = ",".join(str(each) for each in given)
    else:
        definitions, of = await _next_to_fire(visit), None
    found = await read_strip(visit, definitions, path="/strip", of=of)
    return visit.show("strip.html", strip=found, most=MOST_ROWS)


async def _next_to_fire(visit: PageRequest) -> Sequence[TaskDefinition]:
    return await visit.client.alist_definitions(
        **theirs(visit.caller), state="active", soonest_first=True, limit=MOST_ROWS
    )


MOST_BACKFILLED = 1_000
"""The most fire times that one request runs."""


async def pause(visit: PageRequest) -> Response:
    """Pause it: nothing of it starts until it is resumed."""
    found = await _definition(visit)
    await visit.client.apause(found.id, request.text(visit.form, "note"))
    return _back(visit, found.id, "paused")


async def resume(visit: PageRequest) -> Response:
    """End its pause."""
    found = await _definition(visit)
    await visit.client.aresume(found.id)
    return _back(visit, found.id, "resumed")


async def run(visit: PageRequest) -> Response:
    """Run it once more, now; its instance is shown."""
    found = await _definition(visit)
    payload = request.json_object(visit.form, "payload")
    key = request.text(visit.form, "key")
    instance = await visit.client.arun_now(found.id, payload=payload, key=key)
    return visit.go(f"/instances/{instance.id}")


async def backfill(visit: PageRequest) -> Response:
    """Run those fire times within a range that have not run."""
    found = await _definition(visit)
    start, end = _required(visit, "from"), _required(visit, "until")
    await visit.client.abackfill(found.id, start, end, limit=MOST_BACKFILLED)
    return _back(visit, found.id, "backfilled")


async def edit(visit: PageRequest) -> Response:
    """Change its queue, priority and metadata; refuse if it has been changed since."""
    found = await _definition(visit)
    form = visit.form
    revision = _number(visit, "revision", range(2**63))
    queue = request.text(form, "queue") or found.queue
    visit.caller.check_queue(queue)
    changed = replace(
        found,
        queue=queue,
        priority=_number(visit, "priority", PRIORITIES),
        metadata=request.json_object(form, "metadata") or {},
        revision=revision,
    )
    await visit.client.aschedule(changed)
    return _back(visit, found.id, "edited")


async def _definition(visit: PageRequest) -> TaskDefinition:
    return await seen_definition(visit.here, visit.caller, visit.id)


def _back(visit: PageRequest, id: UUID, done: str) -> Response:
    return visit.go(f"/definitions/{id}", done=done)


def _required(visit: PageRequest, name: str) -> datetime:
    at = request.instant(visit.form, name)
    if at is None:
        raise invalid(name, "say when")
    return at


def _number(visit: PageRequest, name: str, numbers: range) -> int:
    text = request.text(visit.form, name) or ""
    if text.isascii() and text.isdigit() and len(text) < 20 and int(text) in numbers:
        return int(text)
    raise invalid(name, f"it must be a number from {numbers[0]} to {numbers[-1]}")


HISTORY = 20
"""The most fire times on a page of the history, and the most instances made by hand."""
_NEXT = 10
_DONE = {
    "paused": "It has been paused.",
    "resumed": "It has been resumed.",
    "backfilled": "The missed fire times are being run.",
    "edited": "It has been changed.",
}
_MICROSECOND = timedelta(microseconds=1)
_EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
_LATEST = datetime(9900, 1, 1, tzinfo=UTC)


def _read(
    visit: PageRequest, definition: TaskDefinition, before: datetime | None
) -> dict[str, Any]:
    """A definition with its next fire times, and its history before a time."""
    client, sees = visit.client, visit.caller.sees
    coming, warnings = _of_trigger(definition, visit.now)
    history = client.list_fired(
        definition.id,
        since=_EARLIEST,
        before=before or _LATEST,
        newest_first=True,
        limit=HISTORY,
    )
    by_hand = [] if before else client.list_unscheduled(definition.id, limit=HISTORY)
    return {
        "definition": definition,
        "described": fires(definition),
        "policies": policies_of(definition),
        "coming": coming,
        "warnings": warnings,
        "history": history,
        "before": history[-1].fire_time if len(history) == HISTORY else None,
        "by_hand": [each for each in by_hand if sees(each.definition)],
    }


def policies_of(definition: TaskDefinition) -> list[tuple[str, str]]:
    """Names and values of the settings that a definition has."""
    found: dict[str, object] = {"priority": definition.priority}
    for name in POLICIES:
        value = getattr(definition, name)
        if isinstance(value, RetryPolicy | CatchUp):
            found |= {
                f"{name}: {each.name}": part
                for each in fields(value)
                if (part := getattr(value, each.name)) not in (None, ())
            }
        else:
            found[name] = value
    found["when_full"] = definition.max_queue and definition.when_full
    if definition.retry is not None and definition.retry.delay is None:
        found["retry: delay"] = "until expire after has passed"
    return [
        (name.replace("_", " "), _said(value))
        for name, value in found.items()
        if value is not None
    ]


def _said(value: object) -> str:
    if isinstance(value, timedelta):
        return span(value)
    if isinstance(value, tuple):
        return ", ".join(getattr(each, "__name__", str(each)) for each in value)
    return str(value)


def _of_trigger(
    definition: TaskDefinition, now: datetime
) -> tuple[Sequence[PreviewedTime], Sequence[str]]:
    """The next fire times, and warnings."""
    trigger, first = definition.trigger, definition.next_fire_time
    try:
        coming: Sequence[PreviewedTime] = []
        if first is not None:
            after = first - _MICROSECOND
            coming = ask(trigger, lambda: preview(trigger, _NEXT, after))
        return coming, ask(trigger, lambda: list(trigger.warnings(now)))
    except Exception as error:
        # A trigger of a user may raise anything.
        return [], [f"its fire times cannot be shown: {shown(error)}"]


async def definition(visit: PageRequest) -> Response:
    """What a definition says, when it fires next, what it fired, and why."""
    query, now = visit.query, visit.now
    found = await _definition(visit)
    before = request.instant(query, "before")
    at = request.instant(query, "at")
    why: Why | None = None
    if at is not None:
        why = await seen_why(visit.here, visit.caller, found.id, at)
    read = await on_thread(_read, visit, found, before)
    strip = await read_strip(visit, [found], path=f"/definitions/{found.id}")
    return visit.show(
        "definition.html",
        **read,
        strip=strip,
        why=why,
        at=at,
        now=now,
        done=_DONE.get(query.get("done", "")),
        most_backfilled=MOST_BACKFILLED,
    )


async def definitions(visit: PageRequest) -> Response:
    """A page of the definitions that meet every condition."""
    query = visit.query
    filters: dict[str, Any] = {
        each: request.text(query, each) for each in ("name", "queue", "owner")
    }
    states = [each.value for each in DefinitionState]
    filters["state"] = request.word(query, "state", states)
    order = request.word(query, "order", ("id", "soonest"))
    found = await visit.client.alist_definitions(
        **filters,
        metadata=request.json_object(query, "metadata"),
        **theirs(visit.caller),
        soonest_first=order == "soonest",
        after=request.text(query, "after"),
        limit=LISTED,
    )
    metadata = request.text(query, "metadata")
    given = {**filters, "order": order, "metadata": metadata}
    return visit.show("definitions.html", definitions=found, given=given, states=states)


ROUTES = [
    page("/strip", strip),
    page("/definitions", definitions),
    page("/definitions/{id:uuid}", definition),
    change("/definitions/{id:uuid}/pause", pause, needs="jobs:pause"),
    change("/definitions/{id:uuid}/resume", resume, needs="jobs:pause"),
    change("/definitions/{id:uuid}/run", run, needs="runs:write"),
    change("/definitions/{id:uuid}/backfill", backfill, needs="runs:write"),
    change("/definitions/{id:uuid}/edit", edit, needs="jobs:write"),
]
