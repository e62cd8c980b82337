"""What a read of a store asks for: which rows, in which order, and where to go on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from enum import Enum
from heapq import nlargest, nsmallest
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from uuid import UUID

from go_scheduler.json import JSON, contains
from go_scheduler.models import OPEN, RUNS, WAITING, Counted, DefinitionState, State
from go_scheduler.models.values import trusted
from go_scheduler.stores.messages import Position

if TYPE_CHECKING:
    from go_scheduler.models import TaskDefinition, TaskInstance

Item = TypeVar("Item")
_Item = TypeVar("_Item", covariant=True)

_LATEST = datetime.max.replace(tzinfo=UTC)
_position = trusted(Position)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Conditions on instances, which all have to be met; None: any will do.

    Attributes:
        ids: Their id is among these.
        definition_id: They belong to this definition, which has not been deleted.
        name: Their definition has this name.
        key: They have this ``key``.
        states: Their state is among these.
        paused: Whether their definition is paused.
        parked: Whether they are parked.
        unstarted: Whether only those are meant that have not ended, and whose run has
            not begun. A run on a bus has not begun while it has a ``start_by``.
        since: Their ``execute_at`` is not before this.
        fired: Whether they have a ``fire_time``.
        fired_since: They have a ``fire_time``, not before this.
        fired_before: They have a ``fire_time``, before this.
        queues: The queue in which they are, or have ended, is among these.
        owners: Their definition is in the declared set of one of these owners.
    """

    ids: Collection[UUID] | None = None
    definition_id: UUID | None = None
    name: str | None = None
    key: str | None = None
    states: Collection[State] | None = None
    paused: bool | None = None
    parked: bool | None = None
    unstarted: bool = False
    since: datetime | None = None
    fired: bool | None = None
    fired_since: datetime | None = None
    fired_before: datetime | None = None
    queues: Collection[str] | None = None
    owners: Collection[str] | None = None

    def __post_init__(self) -> None:
        if self.ids is not None:
            object.__setattr__(self, "ids", frozenset(self.ids))

    def matches(self, instance: TaskInstance) -> bool:
        """Whether an instance meets every condition.

        An instance does not say whether its definition has been deleted. If there is a
        ``definition_id``, the store has to look only at what that has now.
        """
        of, fire_time = instance.definition, instance.fire_time
        return (
            (self.ids is None or instance.id in self.ids)
            and (self.definition_id is None or of.id == self.definition_id)
            and (self.name is None or of.name == self.name)
            and (self.key is None or instance.key == self.key)
            and (self.states is None or instance.state in self.states)
            and (self.paused is None or of.paused is self.paused)
            and (self.parked is None or instance.parked is self.parked)
            and (not self.unstarted or is_unstarted(instance))
            and (self.since is None or instance.execute_at >= self.since)
            and (self.fired is None or (fire_time is not None) is self.fired)
            and (
                self.fired_since is None
                or (fire_time is not None and fire_time >= self.fired_since)
            )
            and (
                self.fired_before is None
                or (fire_time is not None and fire_time < self.fired_before)
            )
            and (self.queues is None or of.queue in self.queues)
            and (self.owners is None or of.owner in self.owners)
        )

    @property
    def conditions(self) -> frozenset[str]:
        """The names of the conditions that there are."""
        return frozenset(
            each.name
            for each in fields(self)
            if getattr(self, each.name) is not each.default
        )

    @property
    def is_open(self) -> bool:
        """Whether nothing that has ended is looked for."""
        states = self.states
        return self.unstarted or (
            states is not None and all(each in OPEN for each in states)
        )

    @property
    def is_held(self) -> bool:
        """Whether only what nodes hold or run is looked for."""
        states = self.states
        return states is not None and all(each in _HELD for each in states)

    @property
    def is_claimable(self) -> bool:
        """Whether only what nodes may claim is looked for, now or when it is due."""
        pending = self.states is not None and set(self.states) == {State.PENDING}
        return pending and self.parked is False and self.paused is False


_HELD = (State.CLAIMED, *RUNS)


def is_unstarted(instance: TaskInstance) -> bool:
    """Whether an instance has not ended, and its run has not begun."""
    state = instance.state
    return state in WAITING or (state in OPEN and instance.start_by is not None)


class Order(Enum):
    """The orders of instances. Each is by a time, and then by the id.

    What does not have the time is left out. The value is the name of the field.
    """

    EXECUTION = "execute_at"
    FIRE_TIME = "fire_time"
    END = "completed_at"
    DUE = "due_at"
    EXPIRY = "expires_at"
    """When the claim expires."""
    ID = "id"
    """By the id alone."""

    def position(self, instance: TaskInstance) -> Position | None:
        """Where an instance stands; None: it is left out."""
        if self is Order.ID:
            return _position(at=None, id=instance.id)
        at = getattr(instance, self.value)
        return None if at is None else _position(at=at, id=instance.id)


class DefinitionOrder(Enum):
    """The orders of definitions."""

    ID = "id"
    NEXT_FIRE_TIME = "next_fire_time"
    """By the next fire time, then by the id; last what has none."""

    def position(self, definition: TaskDefinition) -> Position:
        """Where a definition stands."""
        by_id = self is DefinitionOrder.ID
        at = None if by_id else definition.next_fire_time
        return _position(at=at, id=definition.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionFilter:
    """Conditions on definitions, which all have to be met; None: any will do.

    Attributes:
        ids: Their id is among these.
        metadata: Their metadata contains this: each key with a value that contains the
            one given; an array contains those whose items it all contains.
        name: They have this name.
        name_prefix: Their name begins with this text.
        queues: Their queue is among these.
        owners: They are in the declared set of one of these owners.
        state: They are in this state.
    """

    ids: Collection[UUID] | None = None
    metadata: Mapping[str, JSON] | None = field(default=None, hash=False)
    name: str | None = None
    name_prefix: str | None = None
    queues: Collection[str] | None = None
    owners: Collection[str] | None = None
    state: DefinitionState | None = None

    def __post_init__(self) -> None:
        if self.ids is not None:
            object.__setattr__(self, "ids", frozenset(self.ids))

    def matches(self, definition: TaskDefinition) -> bool:
        """Whether a definition meets every condition."""
        name, prefix = definition.name, self.name_prefix
        return (
            (self.ids is None or definition.id in self.ids)
            and (self.name is None or name == self.name)
            and (prefix is None or (name is not None and name.startswith(prefix)))
            and (self.queues is None or definition.queue in self.queues)
            and (self.owners is None or definition.owner in self.owners)
            and (self.state is None or definition.state is self.state)
            and (self.metadata is None or contains(definition.metadata, self.metadata))
        )


class Page(list[Item]):
    """A list of rows that may go on.

    Attributes:
        next: Where to go on, as ``after`` of the next read; None: there is no more.
    """

    def __init__(
        self, rows: Iterable[Item] = (), *, next: Position | None = None
    ) -> None:
        super().__init__(rows)
        self.next = next


class _AnyPage(Protocol[_Item]):
    next: Any

    def __iter__(self) -> Iterator[_Item]: ...


def all_items(read: Callable[..., _AnyPage[_Item]]) -> Iterator[_Item]:
    """Read a list, page by page.

    Args:
        read: Reads the page that comes after its argument ``after``.
    """
    after = None
    while True:
        page = read(after=after)
        yield from page
        if (after := page.next) is None:
            return


def sorted_page(
    rows: Iterable[Item],
    position: Callable[[Item], Position | None],
    *,
    descending: bool = False,
    after: Position | None,
    limit: int,
) -> Page[Item]:
    """The page of rows that come in any order.

    Args:
        rows: All that meet the filter.
        position: That of the order. Rows without a position are left out.
        descending: Whether the order is backwards.
        after: Where the page before ends.
        limit: Most rows of the page.
    """
    last = None if after is None else _sort_key(after)
    placed = []
    for row in rows:
        if (where := position(row)) is None:
            continue
        key = _sort_key(where)
        if last is None or (key < last if descending else key > last):
            placed.append((key, row))
    first = (nlargest if descending else nsmallest)(limit, placed, key=itemgetter(0))
    return page_of([row for _, row in first], position, limit=limit)


def page_in_order(
    rows: Iterable[TaskInstance],
    where: Filter,
    order: Order,
    *,
    limit: int,
    scan_limit: int | None,
) -> Page[TaskInstance]:
    """The page of rows that come in their order, which is looked at up to a bound.

    Args:
        rows: All that come after the page before.
        where: What they have to meet.
        order: Their order.
        limit: Most rows of the page.
        scan_limit: So many rows are looked at; None: as many as it takes.
    """
    page: list[TaskInstance] = []
    end: Position | None = None
    for number, row in enumerate(rows):
        if number == scan_limit or len(page) == limit:
            return Page(page, next=end)
        if where.matches(row):
            page.append(row)
        end = order.position(row)
    return Page(page)


def page_of(
    rows: Sequence[Item], position: Callable[[Item], Position | None], *, limit: int
) -> Page[Item]:
    """The page of its rows. If it is full, the next one goes on behind the last."""
    return Page(rows, next=position(rows[-1]) if len(rows) >= limit else None)


def _sort_key(position: Position) -> tuple[bool, datetime, int]:
    """What has no time comes last."""
    return position.at is None, position.at or _LATEST, position.id.int


ANY = Filter()
ANY_DEFINITION = DefinitionFilter()
CLAIMABLE = Filter(states=(State.PENDING,), parked=False, paused=False)
"""What a node may claim, now or when it is due."""
CLAIMED = Filter(states=_HELD, paused=False)
"""What nodes hold and run, but for that of paused definitions."""


def counted(found: int, most: int | None) -> Counted:
    """A number of rows, counted up to ``most``; None: without a bound."""
    return Counted(count=found) if most is None else Counted.up_to(most, found)
