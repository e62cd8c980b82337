"""What a caller may know of, in lists and numbers that are everybody's."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from go_scheduler.client.pages import Page

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from go_scheduler.http.access.caller import Caller

_Item = TypeVar("_Item")

LISTED = 50
"""As many a list shows, or a few more."""
_ROUNDS = 2


def sees_queue(caller: Caller, queue: str) -> bool:
    """Whether the numbers of a queue are shown to a caller.

    They are of all owners together.
    """
    if caller.owners is not None:
        return False
    return caller.queues is None or queue in caller.queues


async def seen_page(
    read: Callable[[str | None], Awaitable[Page[_Item]]],
    *,
    after: str | None,
    sees: Callable[[_Item], bool],
) -> Page[_Item]:
    """A page of what the caller may know of, made of a few that were read.

    Args:
        read: Reads a page that comes after another.
        after: Where the first begins.
        sees: Whether the caller may know of one.

    Returns:
        What was found; it may be nothing, and go on all the same.
    """
    found: list[_Item] = []
    for _ in range(_ROUNDS):
        page = await read(after)
        found += [each for each in page if sees(each)]
        after = page.next
        if after is None or len(found) >= LISTED:
            break
    return Page(found, next=after)
