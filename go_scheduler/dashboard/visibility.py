"""What a caller may know of, in lists and numbers that are everybody's."""

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
"""As many a list shows."""
_ROUNDS = 4
_PURPOSE = "cursor"
_LASTS = timedelta(days=1)


class Theirs(TypedDict):
    """What lists are asked for, so that they are a caller's; None: all are."""

    queues: Set[str] | None
    owners: Set[str] | None


def theirs(caller: Caller) -> Theirs:
    """What lists are asked for, so that all in them is there for a caller."""
    return {"queues": caller.queues, "owners": caller.owners}


def sees_queues(caller: Caller) -> bool:
    """Whether the numbers of any queue are shown to a caller.

    They are of all owners together.
    """
    return caller.owners is None


def sees_queue(caller: Caller, queue: str) -> bool:
    """Whether the numbers of a queue are."""
    if not sees_queues(caller):
        return False
    return caller.queues is None or queue in caller.queues


def sees_nodes(caller: Caller) -> bool:
    """Whether nodes are shown to a caller: they serve everybody's queues and names."""
    return "admin" in caller.scopes and not is_restricted(caller)


def check_sees_nodes(caller: Caller) -> None:
    """Refuse one to whom nodes are not shown.

    Raises:
        Problem: 403.
    """
    caller.check_scopes("admin")
    check_unrestricted(caller)


async def full_page(
    visit: PageRequest, read: Callable[[str | None, int], Awaitable[Page[_Item]]]
) -> Page[_Item]:
    """A page of a list of which a part that was read may have less than was asked for.

    Args:
        visit: The request; it may say after what the page comes.
        read: Reads so many that come after others.

    Returns:
        What was found; it may be less, even nothing, and go on all the same.
    """
    found: list[_Item] = []
    after = await _opened(visit)
    for _ in range(_ROUNDS):
        page = await read(after, LISTED - len(found))
        found += page
        after = page.next
        if after is None or len(found) == LISTED:
            break
    return Page(found, next=await _sealed(visit, after))


async def _sealed(visit: PageRequest, after: str | None) -> str | None:
    """Where a list goes on, without a word of what is there that is not theirs."""
    if after is None or not is_restricted(visit.caller):
        return after
    until = visit.here.clock.now() + _LASTS
    seal = await visit.here.sessions.seal()
    return seal.close(_PURPOSE, {"after": after}, until)


async def _opened(visit: PageRequest) -> str | None:
    after = visit.request.query_params.get("after") or None
    if after is None or not is_restricted(visit.caller):
        return after
    seal = await visit.here.sessions.seal()
    found = seal.open(_PURPOSE, after, visit.here.clock.now())
    if found is None:
        raise invalid("after", "it is none of this list, or too old: begin anew")
    opened: str = found["after"]
    return opened
