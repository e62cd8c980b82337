"""Pages of lists, and the cursors by which they go on."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from go_scheduler.checks import check_type
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown
from go_scheduler.stores.messages import Position
from go_scheduler.triggers.base import utc

if TYPE_CHECKING:
    from collections.abc import Iterable

    from go_scheduler.stores import filters

_Item = TypeVar("_Item")


class ListOrder(StrEnum):
    """The order of a list. A cursor can be used in its own order only."""

    DEFINITIONS_BY_ID = "d"
    DEFINITIONS_SOONEST_FIRST = "ds"
    INSTANCES_OLDEST_FIRST = "i"
    INSTANCES_NEWEST_FIRST = "in"
    INSTANCES_ENDED_LAST_FIRST = "ie"


# The orders in which each item has a time.
_BY_TIME = (
    ListOrder.INSTANCES_OLDEST_FIRST,
    ListOrder.INSTANCES_NEWEST_FIRST,
    ListOrder.INSTANCES_ENDED_LAST_FIRST,
)


class Page(list[_Item]):
    """A list that may go on.

    Attributes:
        next: Pass it on as ``after`` to read the next page; None: there is none. It is
            a text without meaning, of some 100 letters, digits, ``-``, ``_`` and
            ``=``, and stays good whatever becomes of what the page shows.
    """

    def __init__(self, items: Iterable[_Item] = (), *, next: str | None = None) -> None:
        super().__init__(items)
        self.next = next


def page_of(found: filters.Page[_Item], order: ListOrder) -> Page[_Item]:
    """A page of a store, with a cursor that says where to go on."""
    next = None if found.next is None else cursor_of(order, found.next)
    return Page(found, next=next)


def read_cursor(after: object, order: ListOrder) -> Position | None:
    """The position that a cursor stands for.

    Raises:
        ConfigurationError: It is none, or one of another list.
    """
    if after is None:
        return None
    check_type("after", after, str)
    assert isinstance(after, str)
    try:
        of, at, id = json.loads(urlsafe_b64decode(after.encode()))
        position = Position(
            at=(
                None
                if at is None or order is ListOrder.DEFINITIONS_BY_ID
                else utc(datetime.fromisoformat(at), name="at")
            ),
            id=UUID(id),
        )
    # Anybody can cause a RecursionError: brackets within brackets.
    except (ValueError, TypeError, AttributeError, RecursionError, ConfigurationError):
        of = None
    if of != order.value or (at is None and order in _BY_TIME):
        raise ConfigurationError(
            "after must be the `next` of a page of the same list in the same order, not"
            f" {shown(after)}"
        )
    return position


def from_id(id: UUID) -> str:
    """The cursor after which a list in the order of ids begins with this one."""
    before = UUID(int=max(0, id.int - 1))
    return cursor_of(ListOrder.DEFINITIONS_BY_ID, Position(at=None, id=before))


def cursor_of(order: ListOrder, position: Position) -> str:
    """The cursor that stands for a position, for the next page of the same list."""
    at = None if position.at is None else position.at.isoformat()
    text = json.dumps([order.value, at, str(position.id)])
    return urlsafe_b64encode(text.encode()).decode()
