"""The reads of a Redis store: walks over sorted sets, a chunk at a time.

What a sorted set has in the order that is asked for is read up to the end of the page.
For another order all instances that may be meant are read, and then sorted: by fire
time without a definition, say, or by due time with a state other than pending.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from go_scheduler.models import RUNS, Outcome, State
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
    read_run,
    time_text,
)
from go_scheduler.stores.rules import LOCK

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from uuid import UUID

    from go_scheduler.clock import Clock
    from go_scheduler.models import TaskDefinition, TaskInstance, TaskRun
    from go_scheduler.stores.messages import Position
    from go_scheduler.stores.redis.rows import Reader
    from go_scheduler.stores.redis.server import Server

_CHUNK = 500
_QUEUES = 100
_MOST_HELD = 1000
_NEVER = "9" * 18
_ENDED = {State(each.value): each.value for each in Outcome}
_HELD = {State.CLAIMED, *RUNS}
_PRIORITIES = range(4)

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

    sets: Mapping[str, object]
    is_ordered: bool
    prefix: str = ""
    first: str = ""
    last: str = "~"


def _index_of(where: Filter, order: Order) -> _Index:
    """The sorted sets by which the instances of a filter are found."""
    states = None if where.states is None else set(where.states)
    ended = set(_ENDED) if states is None else states & set(_ENDED)
    if where.definition_id is not None:
        return _index_of_definition(where, order)
    if where.key is not None:
        by_key = order is Order.EXECUTION
        return _Index(
            sets={"sets": ["keys"]}, prefix=f"{where.key}\0", is_ordered=by_key
        )
    if order is Order.END:
        sets = [f"e:{_ENDED[each]}" for each in ended]
        return _Index(sets={"sets": sets}, is_ordered=True)
    if order is Order.DUE and where.is_claimable:
        kinds = [f"p:{each}:" for each in _PRIORITIES]
        return _Index(sets=_by_queue(kinds, where.queues), is_ordered=True)
    if order is Order.EXPIRY and where.is_held and where.paused is False:
        return _Index(sets=_by_queue(["l:"], where.queues), is_ordered=True)
    return _Index(
        sets={"sets": _classes(states)},
        is_ordered=order is Order.EXECUTION,
        first=time_text(where.since),
    )


def _index_of_definition(where: Filter, order: Order) -> _Index:
    assert where.definition_id is not None
    sets: dict[str, object] = {"of": where.definition_id}
    if order is Order.FIRE_TIME:
        since, before = where.fired_since, where.fired_before
        return _Index(
            sets={**sets, "own": "df:"},
            is_ordered=True,
            first=time_text(since),
            last=time_text(before) or "~",
        )
    sets["own"] = "du:" if where.fired is False else "di:"
    if where.states is not None and len(classes := _classes(set(where.states))) == 1:
        # Fewer may be in that state than are its own.
        sets["among"] = classes[0]
    return _Index(
        sets=sets,
        is_ordered=order is Order.EXECUTION,
        first=time_text(where.since),
    )


def _classes(states: set[State] | None) -> Sequence[str]:
    """The sorted sets of what has not ended, and of each outcome."""
    wanted = set(State) if states is None else states
    return sorted({f"x:{_ENDED.get(each, 'open')}" for each in wanted})


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
        found: Sequence[TaskInstance] | Iterator[TaskInstance] | None
        found = None if index.is_ordered and order is Order.EXPIRY else self._few(where)
        if found is None and not index.is_ordered:
            found = islice(self._walk_index(index, _CHUNK), scan_limit)
        if found is not None:
            return sorted_page(
                filter(where.matches, found),
                order.position,
                descending=descending,
                after=after,
                limit=limit,
            )
        walked = self._walk_index(index, limit + 1, after, descending)
        return page_in_order(walked, where, order, limit=limit, scan_limit=scan_limit)

    def _few(self, where: Filter) -> Sequence[TaskInstance] | None:
        """All that a filter may mean, if that is known to be few."""
        if where.ids is not None:
            return [
                each
                for some in parts(list(where.ids), _CHUNK)
                for each in self._read(ids=some)
            ]
        if where.definition_id is not None and where.key is not None:
            return self._read(of=where.definition_id, key=where.key)
        if not where.is_held:
            return None
        # What is claimed of a paused definition stands in no list of claims.
        states = () if where.paused is False else _HELD
        answer, number, _, missing = self._run(
            "list_instances",
            by_queue=["l:"],
            of=where.definition_id,
            counted=states,
            limit=_MOST_HELD,
            **{"from": "-", "to": "+"},
        )
        if number == _MOST_HELD or missing:
            return None
        return self._reader.instances(answer)

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
            answer, number, place, _ = self._run(
                "list_instances",
                **index.sets,
                **{"from": first, "to": last},
                descending=descending or None,
                limit=limit,
            )
            yield from self._reader.instances(answer)
            if number < limit:
                return
            limit = _CHUNK
            if descending:
                last = f"({place}"
            else:
                first = f"({place}"

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

    def count(
        self, filters: Sequence[Filter], *, most: int | None = None
    ) -> Sequence[Mapping[State, Counted]]:
        """How many instances meet each of some filters, by their state."""
        return [self._counted(each, most) for each in filters]

    def _counted(self, where: Filter, most: int | None) -> Mapping[State, Counted]:
        of = where.definition_id
        known = ANY if of is None else Filter(definition_id=of, unstarted=True)
        if where != known:
            return super()._count(where, most)
        found = self._run(
            "count_instances",
            of=of,
            states=list(State),
        )
        numbers = zip(State, map(int, found), strict=True)
        return {state: counted(number, most) for state, number in numbers}

    def list_claimed(
        self, node: UUID, *, after: TaskInstance | None = None, limit: int = 100
    ) -> Sequence[TaskInstance]:
        """Read a page of what a node has claimed and has not ended."""
        index = _Index(sets={"by_queue": ["l:"], "node": node}, is_ordered=False)
        # It may be renewed meanwhile, and is met again then.
        found = {each.id: each for each in self._walk_index(index, _CHUNK)}
        last = None if after is None else Order.ID.position(after)
        return sorted_page(found.values(), Order.ID.position, after=last, limit=limit)

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
