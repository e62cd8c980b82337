"""The pages: each reads its data, has its routes, and a template of the same name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from starlette.responses import Response, StreamingResponse

from go_scheduler.checks import PRIORITIES, parse_id
from go_scheduler.client.store_access import on_thread
from go_scheduler.client.views import Page
from go_scheduler.dashboard import request
from go_scheduler.dashboard.live import Restriction
from go_scheduler.dashboard.request import PageRequest, change, page, sees_nodes
from go_scheduler.dashboard.timeline import (
    MOST_HEAPS,
    ZOOMS,
    TimelineRow,
    Window,
    read_row,
    zoom_of,
)
from go_scheduler.dashboard.words import fires, span
from go_scheduler.errors import (
    TaskDefinitionNotFoundError,
    TaskInstanceNotFoundError,
    TaskInstanceStateError,
)
from go_scheduler.formatting import shown
from go_scheduler.http.access.caller import (
    check_unrestricted,
    is_restricted,
    seen_definition,
    seen_instance,
    seen_why,
)
from go_scheduler.http.problems import invalid
from go_scheduler.json import write_instant
from go_scheduler.models import (
    POLICIES,
    DefinitionState,
    Histogram,
    Outcome,
    State,
    TaskDefinition,
    TaskInstance,
)
from go_scheduler.policies import CatchUp, RetryPolicy
from go_scheduler.triggers.previews import PreviewedTime, ask, preview

if TYPE_CHECKING:
    from uuid import UUID

    from go_scheduler.http.access.caller import Caller
    from go_scheduler.models import QueueStats
    from go_scheduler.why import Why

_Item = TypeVar("_Item")

LISTED = 50
"""The most items of a page of a list."""


class Theirs(TypedDict):
    """The filters of a list; None: no filter."""

    queues: Set[str] | None
    owners: Set[str] | None


def theirs(caller: Caller) -> Theirs:
    """The filters for what a caller may see."""
    return {"queues": caller.queues, "owners": caller.owners}


_HOUR = timedelta(hours=1)
_FAILURES = 10
_LOOKED_AT = 200
_SHOWN = 20
_CLAIMS = 500


def by_queue(
    stats: Iterable[QueueStats],
) -> list[tuple[str, Histogram, Mapping[str, int]]]:
    """The lateness of runs and the number of ends by outcome, for each queue.

    *retried* is the number of runs that another run of their instance follows.
    """
    late: dict[str, Histogram] = {}
    ended: dict[str, Counter[str]] = {}
    for each in stats:
        late[each.queue] = late.get(each.queue, Histogram()) + each.lateness
        ended.setdefault(each.queue, Counter()).update(each.ended)
    return [(queue, found, ended[queue]) for queue, found in sorted(late.items())]


def _read_overview(visit: PageRequest) -> dict[str, Any]:
    """Read the values that the caller may see."""
    client, caller, now = visit.client, visit.caller, visit.now
    of, queues = theirs(caller), caller.queues
    in_hand = client.list_claims(**of, limit=_LOOKED_AT)
    # Counts of a queue are of all owners together.
    sees_counts = caller.owners is None
    counted = client.stats_since(now - _HOUR, now) if sees_counts else []
    return {
        "now": now,
        "counts": None if is_restricted(caller) else client.counts_up_to(),
        "backlog": client.backlog(queues=queues) if sees_counts else [],
        "failures": client.list_ended("failed", **of, limit=_FAILURES),
        "in_hand": in_hand,
        "in_hand_more": len(in_hand) == _LOOKED_AT,
        "shown": in_hand[:_SHOWN],
        "by_node": Counter(each.claimed_by for each in in_hand),
        "figures": by_queue(e for e in counted if queues is None or e.queue in queues),
        "nodes": client.nodes() if sees_nodes(caller) else None,
    }


async def overview(visit: PageRequest) -> Response:
    """The overview."""
    return visit.show("overview.html", **await on_thread(_read_overview, visit))


async def nodes(visit: PageRequest) -> Response:
    """The nodes that the store has seen within the last hour."""
    check_unrestricted(visit.caller)
    found = await visit.client.anodes()
    claims = await visit.client.alist_claims(limit=_CLAIMS)
    held = [each for each in claims if each.state is State.CLAIMED]
    runs = [each for each in claims if each.state is not State.CLAIMED]
    return visit.show(
        "nodes.html",
        nodes=found,
        held=Counter(each.claimed_by for each in held),
        runs=Counter(each.claimed_by for each in runs),
        is_cut=len(claims) == _CLAIMS,
        now=visit.now,
    )


async def live(visit: PageRequest) -> Response:
    """A stream of events of one kind."""
    kind = visit.request.path_params["kind"]
    if kind == "nodes":
        visit.caller.check_scopes("admin")
        check_unrestricted(visit.caller)
    return StreamingResponse(
        visit.here.live.stream(kind, Restriction.of(visit.caller)),
        media_type="text/event-stream",
        # A proxy that buffers would delay the events.
        headers={"X-Accel-Buffering": "no"},
    )


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
        keyed = [TaskDefinition.id_for(text)]
        found = await visit.client.alist_definitions(ids=keyed, **of, limit=1)
        named = await visit.client.asearch_names(text, **of, limit=LISTED)
        definitions = list({each.id: each for each in (*found, *named)}.values())
        instances = await visit.client.asearch_key(text, **of, limit=LISTED)
    return visit.show(
        "search.html",
        text=text,
        definitions=definitions,
        instances=instances,
        is_cut=len(definitions) >= LISTED,
        now=visit.now,
    )


async def _of_id(visit: PageRequest, text: str) -> str | None:
    """The path of the page for an id; None: it is no id, or nothing has it."""
    if (id := parse_id(text)) is None:
        return None
    with suppress(TaskDefinitionNotFoundError):
        definition = await seen_definition(visit.here, visit.caller, id)
        return f"/definitions/{definition.id}"
    with suppress(TaskInstanceNotFoundError):
        instance = await seen_instance(visit.here, visit.caller, id)
        return f"/instances/{instance.id}"
    return None


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
    found: Sequence[TaskDefinition]
    found = [await seen_definition(visit.here, visit.caller, each) for each in given]
    if not given:
        found = await visit.client.alist_definitions(
            **theirs(visit.caller), state="active", soonest_first=True, limit=MOST_ROWS
        )
    of = ",".join(map(str, given)) or None
    strip = await read_strip(visit, found, path="/strip", of=of)
    return visit.show("strip.html", strip=strip, most=MOST_ROWS)


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
    client, query, now = visit.client, visit.query, visit.now
    found = await _definition(visit)
    before = request.instant(query, "before")
    at = request.instant(query, "at")
    why: Why | None = None
    if at is not None:
        why = await seen_why(visit.here, visit.caller, found.id, at)
    coming, warnings = await on_thread(_of_trigger, found, now)
    history = await client.alist_fired(
        found.id,
        since=_EARLIEST,
        before=before or _LATEST,
        newest_first=True,
        limit=HISTORY,
    )
    by_hand: Sequence[TaskInstance] = []
    if before is None:
        unscheduled = await client.alist_unscheduled(found.id, limit=HISTORY)
        by_hand = [it for it in unscheduled if visit.caller.sees(it.definition)]
    strip = await read_strip(visit, [found], path=f"/definitions/{found.id}")
    return visit.show(
        "definition.html",
        definition=found,
        described=await on_thread(fires, found),
        policies=policies_of(found),
        coming=coming,
        warnings=warnings,
        history=history,
        before=history[-1].fire_time if len(history) == HISTORY else None,
        by_hand=by_hand,
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


async def instance(visit: PageRequest) -> Response:
    """The state of an instance, and its runs that did not complete it."""
    found = await seen_instance(visit.here, visit.caller, visit.id)
    runs = await visit.client.alist_runs(found.id)
    why = await seen_why(visit.here, visit.caller, found.id, None)
    return visit.show(
        "instance.html",
        instance=found,
        runs=runs,
        why=why,
        now=visit.now,
        can_cancel=found.outcome is None and not found.cancel_requested,
        can_retry=found.outcome is Outcome.FAILED,
    )


async def cancel(visit: PageRequest) -> Response:
    """Cancel it, or ask its run to stop."""
    found = await seen_instance(visit.here, visit.caller, visit.id)
    if await visit.client.acancel(found.id) is None:
        ended = await visit.client.aget_instance(found.id)
        raise TaskInstanceStateError(found.id, ended.state.value, "it has ended")
    return visit.go(f"/instances/{found.id}")


async def retry(visit: PageRequest) -> Response:
    """Run a failed instance again as soon as possible."""
    found = await seen_instance(visit.here, visit.caller, visit.id)
    await visit.client.aretry(found.id)
    return visit.go(f"/instances/{found.id}")


_ROUNDS = 4
_PURPOSE = "cursor"
_LASTS = timedelta(days=1)


async def full_page(
    visit: PageRequest, read: Callable[..., Awaitable[Page[_Item]]]
) -> Page[_Item]:
    """Read a full page of a list whose reads may return fewer items than requested.

    The cursor of a restricted caller is encrypted: it may name instances of others.

    Args:
        visit: The request, with the cursor of the page.
        read: Reads items ``after`` a cursor, up to a ``limit``.

    Returns:
        The items; there may be fewer, or none, though the list goes on.
    """
    found: list[_Item] = []
    after = request.text(visit.query, "after")
    cookies, now = await visit.here.sessions.cookies(), visit.here.clock.now()
    is_encrypted = is_restricted(visit.caller)
    if is_encrypted and after is not None:
        opened = cookies.decrypt(_PURPOSE, after, now)
        if opened is None:
            raise invalid(
                "after", "it is no cursor of this list, or too old: begin again"
            )
        after = opened["after"]
    for _ in range(_ROUNDS):
        page = await read(after=after, limit=LISTED - len(found))
        found += page
        after = page.next
        if after is None or len(found) == LISTED:
            break
    if is_encrypted and after is not None:
        after = cookies.encrypt(_PURPOSE, {"after": after}, now + _LASTS)
    return Page(found, next=after)


_OUTCOMES = {each.value for each in Outcome}
_MOST_LISTED = 200


async def instances(visit: PageRequest) -> Response:
    """A page of the instances in a state."""
    query = visit.query
    states = [each.value for each in State]
    state = request.word(query, "state", states) or State.RUNNING.value
    client, of = visit.client, theirs(visit.caller)
    if state in _OUTCOMES:
        found = await full_page(visit, partial(client.alist_ended, state, **of))
    elif state == State.PENDING.value:
        found = Page(await client.alist_waiting(**of, limit=_MOST_LISTED))
    else:
        claims = await client.alist_claims(**of, limit=_MOST_LISTED)
        found = Page(each for each in claims if each.state.value == state)
    return visit.show(
        "instances.html",
        instances=found,
        state=state,
        states=states,
        now=visit.now,
        is_cut=state not in _OUTCOMES and len(found) >= _MOST_LISTED,
    )


ROUTES = [
    page("/", overview),
    page("/nodes", nodes, needs=("admin",)),
    page("/live/{kind}", live),
    page("/search", search),
    page("/strip", strip),
    page("/definitions", definitions),
    page("/definitions/{id:uuid}", definition),
    change("/definitions/{id:uuid}/pause", pause, needs="jobs:pause"),
    change("/definitions/{id:uuid}/resume", resume, needs="jobs:pause"),
    change("/definitions/{id:uuid}/run", run, needs="runs:write"),
    change("/definitions/{id:uuid}/backfill", backfill, needs="runs:write"),
    change("/definitions/{id:uuid}/edit", edit, needs="jobs:write"),
    page("/instances", instances),
    page("/instances/{id:uuid}", instance),
    change("/instances/{id:uuid}/cancel", cancel, needs="runs:write"),
    change("/instances/{id:uuid}/retry", retry, needs="runs:write"),
]
