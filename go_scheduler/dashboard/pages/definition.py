"""A definition: what it says, when it fires next, and what it fired."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from go_scheduler.client.awaitable import on_thread
from go_scheduler.dashboard import asked
from go_scheduler.dashboard.pages.definition_changes import MOST_BACKFILLED
from go_scheduler.dashboard.pages.strip import read_strip
from go_scheduler.dashboard.routing import page
from go_scheduler.dashboard.words import fires, span
from go_scheduler.http.routes.seen import seen_definition, seen_why
from go_scheduler.models import TaskDefinition, TaskInstance
from go_scheduler.shown import shown
from go_scheduler.triggers.asking import asked as asked_of
from go_scheduler.triggers.previews import PreviewedTime, preview

if TYPE_CHECKING:
    from starlette.responses import Response

    from go_scheduler.client import Client
    from go_scheduler.dashboard.visit import Visit
    from go_scheduler.why.answer import Why

HISTORY = 20
"""As many fire times a page of the history has, and as many made by hand."""
_NEXT = 10
_DONE = {
    "paused": "It has been paused.",
    "resumed": "It has been resumed.",
    "backfilled": "What was missing is being run.",
    "edited": "It has been changed.",
}
_MICROSECOND = timedelta(microseconds=1)
_FIRST = datetime(1900, 1, 1, tzinfo=UTC)
_LAST = datetime(9900, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionPage:
    """What the page of a definition shows.

    Attributes:
        definition: It.
        described: When it fires, in words.
        policies: What it says besides, with what each is called.
        coming: Its next fire times.
        warnings: What to beware of in its trigger.
        history: What it fired, the latest first.
        before: Where the history goes on; None: nowhere.
        by_hand: What it has without a fire time, the latest first.
    """

    definition: TaskDefinition
    described: str
    policies: Sequence[tuple[str, str]]
    coming: Sequence[PreviewedTime]
    warnings: Sequence[str]
    history: Sequence[TaskInstance]
    before: datetime | None
    by_hand: Sequence[TaskInstance]


def read_definition(
    client: Client,
    definition: TaskDefinition,
    *,
    now: datetime,
    before: datetime | None,
) -> DefinitionPage:
    """Read what the page of a definition shows.

    Args:
        client: Reads it.
        definition: As it was read.
        now: The present.
        before: Of the history what was fired before this; None: all.
    """
    coming, warnings = _of_trigger(definition, now)
    history = client.list_fired(
        definition.id,
        since=_FIRST,
        before=before or _LAST,
        newest_first=True,
        limit=HISTORY,
    )
    return DefinitionPage(
        definition=definition,
        described=fires(definition),
        policies=policies_of(definition),
        coming=coming,
        warnings=warnings,
        history=history,
        before=history[-1].fire_time if len(history) == HISTORY else None,
        by_hand=[] if before else client.list_unscheduled(definition.id, limit=HISTORY),
    )


def policies_of(definition: TaskDefinition) -> list[tuple[str, str]]:
    """What a definition says of how it is run; what it leaves out is not there."""
    found: list[tuple[str, object]] = [("overlap", definition.overlap.value)]
    found += [("priority", definition.priority)]
    found += [("lock", definition.lock), ("jitter", definition.jitter)]
    found += [("max per node", definition.max_per_node)]
    found += [("max queue", definition.max_queue)]
    found += [("when full", definition.max_queue and definition.when_full)]
    found += [
        ("expire after", definition.expire_after),
        ("timeout", definition.timeout),
        ("start timeout", definition.start_timeout),
        ("heartbeat timeout", definition.heartbeat_timeout),
    ]
    for name in ("retry", "catch_up"):
        policy = getattr(definition, name)
        if policy is not None:
            found += [
                (f"{name.replace('_', ' ')}: {each.name.replace('_', ' ')}", value)
                for each in fields(policy)
                if (value := getattr(policy, each.name)) not in (None, ())
            ]
    if definition.retry is not None and definition.retry.delay is None:
        found += [("retry: delay", "until expire after has passed")]
    return [(name, _said(value)) for name, value in found if value is not None]


def _said(value: object) -> str:
    if isinstance(value, timedelta):
        return span(value)
    if isinstance(value, tuple):
        return ", ".join(getattr(each, "__name__", str(each)) for each in value)
    return str(value)


def _of_trigger(
    definition: TaskDefinition, now: datetime
) -> tuple[Sequence[PreviewedTime], Sequence[str]]:
    """Its next fire times, and what to beware of."""
    trigger, first = definition.trigger, definition.next_fire_time
    try:
        coming: Sequence[PreviewedTime] = []
        if first is not None:
            after = first - _MICROSECOND
            coming = asked_of(trigger, lambda: preview(trigger, _NEXT, after))
        return coming, asked_of(trigger, lambda: list(trigger.warnings(now)))
    except Exception as error:
        # That of a third party may raise anything.
        return [], [f"its fire times cannot be shown: {shown(error)}"]


async def definition(visit: Visit) -> Response:
    """What a definition says, when it fires next, what it fired, and why."""
    query = visit.request.query_params
    id = visit.request.path_params["id"]
    found = await seen_definition(visit.here, visit.caller, id)
    now = visit.now
    path = f"/definitions/{found.id}"
    before = asked.instant(query, "before")
    why: Why | None = None
    at = asked.instant(query, "at")
    if at is not None:
        why = await seen_why(visit.here, visit.caller, found.id, at)
    shown = await on_thread(
        read_definition, visit.client, found, now=now, before=before
    )
    strip = await read_strip(visit, [found], path=path)
    return visit.show(
        "definition.html",
        found=shown,
        strip=strip,
        why=why,
        at=at,
        now=now,
        done=_DONE.get(query.get("done", "")),
        most_backfilled=MOST_BACKFILLED,
    )


ROUTES = [page("/definitions/{id:uuid}", definition)]
