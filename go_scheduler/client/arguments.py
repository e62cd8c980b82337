"""The arguments and answers of the client's calls: checks, conditions, jobs, pages."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID, uuid4

from go_scheduler.argument_hints import write_instead
from go_scheduler.checks import check_definition_id, check_number, check_type
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown
from go_scheduler.json import check_text, freeze
from go_scheduler.models import METADATA_LIMIT, DefinitionState
from go_scheduler.stores.filters import DefinitionFilter
from go_scheduler.stores.messages import Position
from go_scheduler.triggers.base import utc

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from go_scheduler.json import JSON
    from go_scheduler.stores import filters
    from go_scheduler.stores.base import JoinedStore


_Given = TypeVar("_Given")
_Word = TypeVar("_Word", bound=StrEnum)

MOST_LISTED = 1000
"""The most definitions or instances that one list returns."""
_MOST_BOUNDS = 101
_MOST_COUNTED = 1_000_000


def check_limit(limit: int) -> None:
    """Check how many items a page may have."""
    check_number("limit", limit, 1, MOST_LISTED)


def check_most(limit: int | None) -> None:
    """Check the largest number of things that a call may do; None: no limit."""
    if limit is not None:
        check_number("limit", limit, 1)


def check_searched(what: str, text: str | None) -> None:
    """Refuse what cannot be a name or a queue."""
    if text is not None:
        check_type(what, text, str)
        check_text(text, what)


def checked_ids(ids: Collection[UUID]) -> Collection[UUID]:
    """Check ids, given as any iterable."""
    check_type("ids", ids, Iterable)
    kept = tuple(ids)
    for each in kept:
        check_type("an id", each, UUID)
    return kept


def checked_names(what: str, names: Collection[str] | None) -> Collection[str] | None:
    """Check names, given as any iterable; None: no restriction."""
    if names is None:
        return None
    kept = several(what, names, such_as='["mail"]')
    for each in kept:
        check_searched(f"one of {what}", each)
    return frozenset(kept)


def whose(
    queues: Collection[str] | None, owners: Collection[str] | None
) -> dict[str, Any]:
    """The conditions that restrict a list to queues and owners, checked."""
    return {
        "queues": checked_names("queues", queues),
        "owners": checked_names("owners", owners),
    }


def checked_most(most: object) -> int:
    """Check the number up to which is counted."""
    return check_number("most", most, 1, _MOST_COUNTED)


def checked_bounds(bounds: Sequence[datetime]) -> Sequence[datetime]:
    """Check the instants between which something is counted."""
    times = [utc(each, name="bounds") for each in bounds]
    if not 2 <= len(times) <= _MOST_BOUNDS:
        raise ConfigurationError(
            f"bounds must be two to {_MOST_BOUNDS} instants, not {len(times)}"
        )
    return times


def several(
    name: str, given: Iterable[_Given], *, such_as: str = "[definition]"
) -> Sequence[_Given]:
    """Check that an argument is an iterable of several; its items are not checked."""
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise ConfigurationError(
            f"{name} must be several, such as {such_as}, not {shown(given)}"
        )
    return tuple(given)


def one_of(kind: type[_Word], word: _Word | str) -> _Word:
    """Check a member of an enumeration, given as such or as its text."""
    check_type("state", word, str)
    if word not in tuple(kind):
        raise ConfigurationError(
            f"state must be one of {', '.join(kind)}: {shown(word)}"
        )
    return kind(word)


def in_both(one: str | None, several: Collection[str] | None) -> Collection[str] | None:
    """What a list may have that meets both conditions; None: anything."""
    if one is None:
        return several
    return [one] if several is None or one in several else []


def conditions(
    *,
    ids: Collection[UUID] | None,
    metadata: Mapping[str, JSON] | None,
    name: str | None,
    queue: str | None,
    owner: str | None = None,
    queues: Collection[str] | None = None,
    owners: Collection[str] | None = None,
    state: DefinitionState | str | None = None,
) -> DefinitionFilter:
    """The conditions, checked.

    Raises:
        ConfigurationError: One is wrong.
    """
    check_searched("name", name)
    check_searched("queue", queue)
    check_searched("owner", owner)
    if metadata is not None:
        metadata = freeze(metadata, name="metadata", limit=METADATA_LIMIT)
    return DefinitionFilter(
        ids=None if ids is None else checked_ids(ids),
        metadata=metadata,
        name=name,
        queues=in_both(queue, checked_names("queues", queues)),
        owners=in_both(owner, checked_names("owners", owners)),
        state=None if state is None else one_of(DefinitionState, state),
    )


def only(definition_id: UUID) -> DefinitionFilter:
    """The condition that is met by one definition alone, checked.

    Raises:
        ConfigurationError: It is no id.
    """
    check_definition_id(definition_id)
    return DefinitionFilter(ids=[definition_id])


def batches(store: JoinedStore, which: DefinitionFilter) -> Iterator[Collection[UUID]]:
    """The ids of the definitions that meet every condition, a hundred at a time.

    If only ids were given, these are returned, whether the definitions exist or not.
    """
    if which.ids is not None and which == DefinitionFilter(ids=which.ids):
        yield which.ids
        return
    after = None
    while page := store.select_definitions(which, after=after):
        yield [each.id for each in page]
        if (after := page.next) is None:
            return


@write_instead('Job(payload={"order": 7}, key="order 7")')
@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One of many for ``enqueue_all``, with a time or a key of its own.

    Attributes:
        payload: The payload, as for ``enqueue``.
        at: When it runs; None: as soon as possible.
        delay: How long after the store's time it runs, instead of ``at``; zero or more.
        key: As for ``enqueue``.
        id: The id of the instance, if one is made. The answer has another id if an
            instance with the ``key`` exists already.
        overrides: Fields of the definition that the instance has of its own, by their
            names: ``queue``, ``priority``, ``expire_after``, ``timeout``,
            ``start_timeout``, ``heartbeat_timeout``, ``retry``, ``lock``, ``metadata``.
    """

    payload: Mapping[str, object] | None = field(default=None, hash=False)
    at: datetime | None = None
    delay: timedelta | None = None
    key: str | None = None
    id: UUID = field(default_factory=uuid4)
    overrides: Mapping[str, object] | None = field(default=None, hash=False)


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
