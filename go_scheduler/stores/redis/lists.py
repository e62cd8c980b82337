"""The reads of a Redis store: walks over sorted sets, a chunk at a time.

What a sorted set has in the order that is asked for is read up to the end of the page.
For another order all instances that may be meant are read, and then sorted: by fire
time without a definition, say, or by due time with a state other than pending.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar

from go_scheduler.checks import PRIORITIES
from go_scheduler.models import OPEN, Outcome, State
from go_scheduler.models.counts import Backlog, Counted
from go_scheduler.stores.base import ReadStore
from go_scheduler.stores.filters import (
    ANY,
    ANY_DEFINITION,
    DefinitionFilter,
    DefinitionOrder,
    Filter,
    Order,
    Page,
    counted,
    page_in_order,
    page_of,
    sorted_page,
)
from go_scheduler.stores.redis.rows import (
    choices_of,
    given_time,
    present,
    read_run,
    time_text,
)
from go_scheduler.stores.rules import LOCK

if TYPE_CHECKING:
    from uuid import UUID

    from go_scheduler.clock import Clock
    from go_scheduler.models import TaskDefinition, TaskInstance, TaskRun
    from go_scheduler.stores.messages import Position
    from go_scheduler.stores.redis.rows import Reader
    from go_scheduler.stores.redis.server import Server

_CHUNK = 500
_QUEUES = 100
_NEVER = "9" * 18
_ENDED = set(map(State, Outcome))
_HELD = [f"x:{each}" for each in OPEN if each is not State.PENDING]

Value = TypeVar("Value")

AHEAD = 8
"""Of what is fired or claimed ahead of its time, a script does so many: what is due at
that moment waits meanwhile, for the server, which does nothing else, and for Python's
lock, while the answer is read."""
DUE = 128
"""Of what is due, or has run, so many: the more there are, the less each costs, and
the longer the server waits while they are read."""


def parts(values: Sequence[Value], size: int) -> Iterator[Sequence[Value]]:
    """All of them, so many at a time."""
    for first in range(0, len(values), size):
        yield values[first : first + size]


class RedisCalls:
    """Runs scripts and reads what they answer."""

    clock: Clock | None
    _server: Server
    _reader: Reader

    def _run(self, name: str, /, **arguments: object) -> Any:
        """Run a script, by the time of the clock that was passed, or the server's."""
        now = None if self.clock is None else self.clock.now()
        return self._server.run(name, **{"now": now, **arguments})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Index:
    """Sorted sets that have all that a filter may mean.

    Attributes:
        sets: Which, as arguments of the script ``list_instances``.
        prefix: What their members begin with, before a time and an id.
        first: The first time.
        last: The time behind the last one.
        is_ordered: Whether they are in the order that is asked for.
    """

    sets: Mapping[str, Any]
    is_ordered: bool
    prefix: str = ""
    first: str = ""
    last: str = "~"


def _index_of(where: Filter, order: Order) -> _Index:
    """The sorted sets by which the instances of a filter are found."""
    states = set(State if where.states is None else where.states)
    by_state = sorted(f"x:{each}" for each in states)
    is_ordered, since = order is Order.EXECUTION, time_text(where.since)
    if where.definition_id is not None and order is Order.FIRE_TIME:
        return _Index(
            sets={"of": where.definition_id, "own": "df:"},
            is_ordered=True,
            first=time_text(where.fired_since),
            last=time_text(where.fired_before) or "~",
        )
    if where.definition_id is not None:
        own = {
            "of": where.definition_id,
            "own": "du:" if where.fired is False else "di:",
            # Fewer may be in that state than are its own.
            "among": by_state[0] if len(by_state) == 1 else None,
        }
        return _Index(sets=present(own), is_ordered=is_ordered, first=since)
    if where.key is not None:
        keys = {"sets": ["keys"]}
        return _Index(sets=keys, prefix=f"{where.key}\0", is_ordered=is_ordered)
    if order is Order.END:
        ended = [f"e:{each}" for each in states & _ENDED]
        return _Index(sets={"sets": ended}, is_ordered=True)
    if order is Order.DUE and where.is_claimable:
        kinds = [f"p:{each}:" for each in PRIORITIES]
        return _Index(sets=_by_queue(kinds, where.queues), is_ordered=True)
    if order is Order.EXPIRY and where.is_held and where.paused is False:
        return _Index(sets=_by_queue(["l:"], where.queues), is_ordered=True)
    return _Index(sets={"sets": by_state}, is_ordered=is_ordered, first=since)


def _by_queue(
    kinds: Sequence[str], queues: Collection[str] | None
) -> Mapping[str, object]:
    if queues is None:
        return {"by_queue": kinds}
    return {"sets": [kind + queue for kind in kinds for queue in set(queues)]}


class RedisReads(RedisCalls, ReadStore):
    """What a ``RedisStore`` reads."""

    def select(
        self,
        where: Filter = ANY,
        *,
        order: Order = Order.EXECUTION,
        descending: bool = False,
        after: Position | None = None,
        limit: int = 100,
        scan_limit: int | None = None,
    ) -> Page[TaskInstance]:
        """Read a page of the instances that meet a filter."""
        index = _index_of(where, order)
        found: Iterable[TaskInstance]
        if where.ids is not None:
            chunks = parts(list(where.ids), _CHUNK)
            found = chain(*(self._read(ids=some) for some in chunks))
        elif where.definition_id is not None and where.key is not None:
            found = self._read(of=where.definition_id, key=where.key)
        elif index.is_ordered:
            walked = self._walk_index(index, limit + 1, after, descending)
            return page_in_order(
                walked, where, order, limit=limit, scan_limit=scan_limit
            )
        else:
            found = islice(self._walk_index(index, _CHUNK), scan_limit)
        return sorted_page(
            filter(where.matches, found),
            order.position,
            descending=descending,
            after=after,
            limit=limit,
        )

    def _read(self, **arguments: object) -> list[TaskInstance]:
        return self._reader.instances(self._run("read_instances", **arguments))

    def _walk_index(
        self,
        index: _Index,
        limit: int,
        after: Position | None = None,
        descending: bool = False,
    ) -> Iterator[TaskInstance]:
        """The instances of an index behind a place, a chunk at a time."""
        first = f"[{index.prefix}{index.first}"
        last = f"({index.prefix}{index.last}"
        if after is not None:
            place = f"({index.prefix}{time_text(after.at)}{after.id.hex}"
            if descending:
                last = min(place, last, key=lambda each: each[1:])
            else:
                first = max(place, first, key=lambda each: each[1:])
        limit = min(limit, _CHUNK)
        while True:
            answer, place = self._run(
                "list_instances",
                **index.sets,
                first=first,
                last=last,
                descending=descending,
                limit=limit,
            )
            yield from self._reader.instances(answer)
            if not place:
                return
            limit = _CHUNK
            first, last = (first, f"({place}") if descending else (f"({place}", last)

    def select_definitions(
        self,
        where: DefinitionFilter = ANY_DEFINITION,
        *,
        order: DefinitionOrder = DefinitionOrder.ID,
        after: Position | None = None,
        limit: int = 100,
        scan_limit: int | None = None,
    ) -> Page[TaskDefinition]:
        """Read a page of the definitions that meet a filter."""
        if where.ids is not None:
            found = filter(where.matches, self._by_ids(where.ids))
            return sorted_page(found, order.position, after=after, limit=limit)
        walked = self._walk_definitions(where, order, after, limit, scan_limit)
        page = list(islice(filter(where.matches, walked), limit))
        return page_of(page, order.position, limit=limit)

    def _by_ids(self, ids: Collection[UUID]) -> Iterator[TaskDefinition]:
        for some in parts(list(set(ids)), _CHUNK):
            _, views, *_ = self._run("read_definitions", ids=some)
            yield from self._reader.definitions(views)

    def _walk_definitions(
        self,
        where: DefinitionFilter,
        order: DefinitionOrder,
        after: Position | None,
        limit: int,
        scan_limit: int | None,
    ) -> Iterator[TaskDefinition]:
        soonest = order is DefinitionOrder.NEXT_FIRE_TIME
        place = None
        if after is not None:
            when = (time_text(after.at) or _NEVER) if soonest else ""
            place = f"{when}{after.id.hex}"
        choices = choices_of(where)
        limit = max(1, min(limit, _CHUNK))
        while True:
            views, number, place = self._run(
                "list_definitions",
                after=place,
                choices=choices,
                prefix=where.name_prefix,
                most=-1 if scan_limit is None else scan_limit,
                soonest=soonest or None,
                limit=limit,
            )
            yield from self._reader.definitions(views)
            if number < limit:
                return
            limit = _CHUNK

    def _count(self, where: Filter, most: int | None) -> Mapping[State, Counted]:
        of = where.definition_id
        known = ANY if of is None else Filter(definition_id=of, unstarted=True)
        if where != known:
            return super()._count(where, most)
        found = self._run("count_instances", of=of, states=list(State))
        numbers = zip(State, map(int, found), strict=True)
        return {state: counted(number, most) for state, number in numbers}

    def list_claimed(
        self, node: UUID, *, after: TaskInstance | None = None, limit: int = 100
    ) -> Sequence[TaskInstance]:
        """Read a page of what a node has claimed and has not ended."""
        index = _Index(sets={"sets": _HELD, "node": node}, is_ordered=False)
        found = self._walk_index(index, _CHUNK)
        last = None if after is None else Order.ID.position(after)
        return sorted_page(found, Order.ID.position, after=last, limit=limit)

    def slot_holder(self, slot: str) -> TaskInstance | None:
        """Read which instance has a slot."""
        # That of a definition has its id as its name.
        name = slot if slot.startswith(LOCK) else slot.replace("-", "")
        return next(iter(self._read(slot=name)), None)

    def list_runs(self, instance_id: UUID) -> Sequence[TaskRun]:
        """Read what is kept of the runs of an instance."""
        kept = self._run("list_runs", id=instance_id)
        return [read_run(instance_id, each) for each in kept]

    def list_backlog(
        self, most: int, *, queues: Collection[str] | None = None
    ) -> Sequence[Backlog]:
        """What is due and has not been claimed, by queue."""
        return [
            Backlog(
                queue=queue,
                due=Counted.up_to(most, number),
                oldest=given_time(oldest),
            )
            for queue, number, oldest in self._run("list_backlog")
            if queues is None or queue in queues
        ][:_QUEUES]

    def list_due_queues(self, *, apart_from: Collection[str]) -> Collection[str]:
        """Name queues in which something is due that nobody has claimed."""
        due = self._run("list_backlog")
        return [queue for queue, *_ in due if queue not in apart_from]
