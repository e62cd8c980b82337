"""The strip of time: what several definitions fire, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from go_scheduler.client.awaitable import on_thread
from go_scheduler.dashboard import request
from go_scheduler.dashboard.request import page
from go_scheduler.dashboard.timeline import (
    MOST_HEAPS,
    ZOOMS,
    TimelineRow,
    Window,
    read_lane,
    zoom_of,
)
from go_scheduler.dashboard.visibility import theirs
from go_scheduler.http.routes.visibility import seen_definition
from go_scheduler.json import write_instant

if TYPE_CHECKING:
    from starlette.responses import Response

    from go_scheduler.dashboard.request import PageRequest
    from go_scheduler.models import TaskDefinition

MOST_LANES = 10
"""The most definitions on one strip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """A strip with its definitions.

    Attributes:
        window: The part of time.
        lanes: One for each definition.
        path: The page that it is on.
        of: The query of that page besides the window; None: there is none.
    """

    window: Window
    lanes: Sequence[TimelineRow]
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
        lanes = [
            read_lane(visit.client, each, window, now=now, heaps=heaps)
            for each in definitions
        ]
        return Strip(window=window, lanes=lanes, path=path, of=of)

    return await on_thread(read)


async def strip(visit: PageRequest) -> Response:
    """The definitions in the query, or those that fire next."""
    given = request.ids(visit.query, "of", most=MOST_LANES)
    definitions: Sequence[TaskDefinition]
    if given:
        definitions = [
            await seen_definition(visit.here, visit.caller, each) for each in given
        ]
        of = ",".join(str(each) for each in given)
    else:
        definitions, of = await _next_to_fire(visit), None
    found = await read_strip(visit, definitions, path="/strip", of=of)
    return visit.show("strip.html", strip=found, most=MOST_LANES)


async def _next_to_fire(visit: PageRequest) -> Sequence[TaskDefinition]:
    return await visit.client.alist_definitions(
        **theirs(visit.caller), state="active", soonest_first=True, limit=MOST_LANES
    )


ROUTES = [page("/strip", strip)]
