"""Visibility: filters lists and counts by the caller's queues and owners."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, TypedDict, TypeVar

from go_scheduler.client.pages import Page
from go_scheduler.http.problems import invalid
from go_scheduler.http.routes.visibility import check_unrestricted, is_restricted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Set

    from go_scheduler.dashboard.request import PageRequest
    from go_scheduler.http.access.caller import Caller

_Item = TypeVar("_Item")

LISTED = 50
"""The most items of a page of a list."""
_ROUNDS = 4
_PURPOSE = "cursor"
_LASTS = timedelta(days=1)


class Theirs(TypedDict):
    """The filters of a list; None: no filter."""

    queues: Set[str] | None
    owners: Set[str] | None


def theirs(caller: Caller) -> Theirs:
    """The filters for what a caller may see."""
    return {"queues": caller.queues, "owners": caller.owners}


def sees_queues(caller: Caller) -> bool:
    """Whether a caller may see counts of queues.

    Such counts are of all owners together.
    """
    return caller.owners is None


def sees_queue(caller: Caller, queue: str) -> bool:
    """Whether a caller may see the counts of a queue."""
    if not sees_queues(caller):
        return False
    return caller.queues is None or queue in caller.queues


def sees_nodes(caller: Caller) -> bool:
    """Whether a caller may see nodes, which serve everybody's queues and names."""
    return "admin" in caller.scopes and not is_restricted(caller)


def check_sees_nodes(caller: Caller) -> None:
    """Refuse a caller who may not see nodes.

    Raises:
        Problem: 403.
    """
    caller.check_scopes("admin")
    check_unrestricted(caller)


async def full_page(
    visit: PageRequest, read: Callable[[str | None, int], Awaitable[Page[_Item]]]
) -> Page[_Item]:
    """Read a full page of a list whose reads may return fewer items than requested.

    Args:
        visit: The request, with the cursor of the page.
        read: Reads items after a cursor, up to a number.

    Returns:
        The items; there may be fewer, or none, though the list goes on.
    """
    found: list[_Item] = []
    after = await _decrypted(visit)
    for _ in range(_ROUNDS):
        page = await read(after, LISTED - len(found))
        found += page
        after = page.next
        if after is None or len(found) == LISTED:
            break
    return Page(found, next=await _encrypted(visit, after))


async def _encrypted(visit: PageRequest, after: str | None) -> str | None:
    """Encrypt the cursor of the next page: it may name instances of other owners."""
    if after is None or not is_restricted(visit.caller):
        return after
    until = visit.here.clock.now() + _LASTS
    cookies = await visit.here.sessions.cookies()
    return cookies.encrypt(_PURPOSE, {"after": after}, until)


async def _decrypted(visit: PageRequest) -> str | None:
    after = visit.query.get("after") or None
    if after is None or not is_restricted(visit.caller):
        return after
    cookies = await visit.here.sessions.cookies()
    found = cookies.decrypt(_PURPOSE, after, visit.here.clock.now())
    if found is None:
        raise invalid("after", "it is no cursor of this list, or too old: begin again")
    opened: str = found["after"]
    return opened
