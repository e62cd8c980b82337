"""The lists of a Redis store, a chunk at a time, and the pages that people look at."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from go_scheduler.errors import (
    TaskInstanceNotFoundError,
)
from go_scheduler.json import contains
from go_scheduler.models import State
from go_scheduler.models.counts import Backlog, Counted
from go_scheduler.stores.base import (
    KEYS_LOOKED_AT,
    LOOKED_AT,
    InstanceStore,
    Stretch,
    ViewStore,
)
from go_scheduler.stores.messages import Position
from go_scheduler.stores.redis.rows import (
    choices_of,
    given_time,
    maybe_time_text,
    read_run,
    time_text,
)
from go_scheduler.stores.rules import is_among, is_fired_within

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.clock import Clock
    from go_scheduler.json import JSON
    from go_scheduler.models import Outcome, TaskDefinition, TaskInstance, TaskRun
    from go_scheduler.stores.redis.rows import Reader
    from go_scheduler.stores.redis.server import Server

_CHUNK = 500
_NEVER = "9" * 18
_ENDED = ("completed", "failed", "cancelled", "skipped")
_CLASSES = {State(each): each for each in _ENDED}
_HELD = (State.CLAIMED, State.RUNNING, State.CANCELLING)


class Lists:
    """Walks over definitions and instances.

    Args:
        server: Runs the scripts.
        reader: Reads what they answer.
    """

    def __init__(self, server: Server, reader: Reader) -> None:
        self._server = server
        self._reader = reader

    def definitions(
        self,
        *,
        ids: Collection[UUID] | None,
        metadata: Mapping[str, JSON] | None,
        name: str | None,
        queues: Collection[str] | None,
        owners: Collection[str] | None,
        soonest_first: bool,
        after: Position | None,
        limit: int,
    ) -> Iterator[TaskDefinition]:
        """Definitions in their order; of those whose state may be any.

        Args are as for ``list_definitions``.
        """
        if ids is not None:
            found = self._of_ids(ids, after, soonest_first=soonest_first)
        else:
            place = None if after is None else _definition_place(after, soonest_first)
            choices = choices_of(
                metadata=metadata, name=name, queues=queues, owners=owners
            )
            found = self._walk_definitions(
                place, choices, soonest_first=soonest_first, chunk=limit
            )
        for each in found:
            if (
                (name is None or each.name == name)
                and is_among(each, queues, owners)
                and (metadata is None or contains(each.metadata, metadata))
            ):
                yield each

    def _of_ids(
        self, ids: Collection[UUID], after: Position | None, *, soonest_first: bool
    ) -> Iterator[TaskDefinition]:
        ordered = sorted({each.hex for each in ids})
        if not soonest_first:
            last = "" if after is None else after.id.hex
            ordered = [each for each in ordered if each > last]
            yield from self._read_ids(ordered)
            return
        last = "" if after is None else _definition_place(after, True)
        found = [(_soonest_place(each), each) for each in self._read_ids(ordered)]
        found.sort(key=lambda each: each[0])
        yield from (each for place, each in found if place > last)

    def _read_ids(self, ids: Sequence[str]) -> Iterator[TaskDefinition]:
        for begin in range(0, len(ids), _CHUNK):
            _, views, *_ = self._server.run(
                "read_definitions", ids=ids[begin : begin + _CHUNK]
            )
            yield from self._reader.definitions(views)

    def _walk_definitions(
        self,
        after: str | None,
        choices: Sequence[Sequence[str]],
        *,
        soonest_first: bool,
        chunk: int,
    ) -> Iterator[TaskDefinition]:
        limit = max(1, min(chunk, _CHUNK))
        while True:
            views, number, after = self._server.run(
                "list_definitions",
                after=after,
                choices=choices,
                soonest=soonest_first or None,
                limit=limit,
            )
            yield from self._reader.definitions(views)
            if number < limit:
                return
            limit = _CHUNK

    def instances(
        self,
        *,
        definition_id: UUID | None = None,
        name: str | None = None,
        key: str | None = None,
        state: State | None = None,
        since: datetime | None = None,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        newest_first: bool = False,
        after: Position | None = None,
        limit: int = 1000,
    ) -> Iterator[TaskInstance]:
        """Instances in their order, of those that are in one of the sets walked.

        Args are as for ``list_instances``.
        """
        sets = _sets_of(definition_id, key, state)
        sets |= {"state": None if state is None else state.value, "name": name}
        sets |= {"queues": _listed(queues), "owners": _listed(owners)}
        is_keyed = definition_id is None and key is not None
        before = f"{key}\0" if is_keyed else ""
        first = f"[{before}" + ("" if since is None else time_text(since))
        last = f"[{before}~"
        if after is not None:
            place = f"{before}{maybe_time_text(after.at)}{after.id.hex}"
            if newest_first:
                last = f"({place}"
            else:
                first = max(f"({place}", first, key=lambda each: each[1:])
        return self.walk(
            sets, first, last, newest_first=newest_first, limit=min(limit, _CHUNK)
        )

    def walk(
        self,
        sets: Mapping[str, object],
        first: str,
        last: str,
        *,
        newest_first: bool,
        limit: int,
    ) -> Iterator[TaskInstance]:
        """Instances of some sorted sets between two places, a chunk at a time."""
        while True:
            answer, number, place = self._server.run(
                "list_instances",
                **sets,
                **{"from": first, "to": last},
                newest=newest_first or None,
                limit=limit,
            )
            yield from self._reader.instances(answer)
            if number < limit:
                return
            limit = _CHUNK
            if newest_first:
                last = f"({place}"
            else:
                first = f"({place}"


def _sets_of(
    definition_id: UUID | None, key: str | None, state: State | None
) -> dict[str, object]:
    """In which sorted sets all are that may be meant, for a script to choose."""
    sets: dict[str, object] = {}
    if definition_id is not None:
        sets = {"of": definition_id.hex, "set": "di:"}
        if state is not None:
            # Fewer may be in that state than are its own.
            sets["among"] = _class_of(state)
        if key is not None:
            # It is known by it, and the others need not be walked over.
            sets["key"] = key
    elif key is not None:
        sets = {"sets": ["keys"]}
    elif state is None:
        sets = {"sets": ["x:open", *(f"x:{each}" for each in _ENDED)]}
    else:
        sets = {"sets": [_class_of(state)]}
    if state in _HELD and key is None:
        sets["held"] = True
    return sets


def _class_of(state: State) -> str:
    return f"x:{_CLASSES.get(state, 'open')}"


def _listed(names: Collection[str] | None) -> Sequence[str] | None:
    return None if names is None else list(names)


def _definition_place(at: Position, soonest_first: bool) -> str:
    when = maybe_time_text(at.at) or _NEVER
    return f"{when}{at.id.hex}" if soonest_first else at.id.hex


def _soonest_place(definition: TaskDefinition) -> str:
    when = maybe_time_text(definition.next_fire_time) or _NEVER
    return f"{when}{definition.id.hex}"


Value = TypeVar("Value")

AHEAD = 8
"""Of what is fired or claimed ahead of its time, a script does so many: what is due at
that moment waits meanwhile, for the server, which does nothing else, and for Python's
lock, while the answer is read."""
DUE = 128
"""Of what is due, or has run, so many: the more there are, the less each costs, and
the longer the server waits while they are read."""


class RedisCalls:
    """Runs scripts and reads what they answer."""

    clock: Clock | None
    _server: Server
    _reader: Reader
    _lists: Lists

    def _now(self) -> str | None:
        """The text of the time of the clock that was passed; None: the server's."""
        return None if self.clock is None else time_text(self.clock.now())


def parts(values: Sequence[Value], size: int) -> Iterator[Sequence[Value]]:
    """All of them, so many at a time."""
    for first in range(0, len(values), size):
        yield values[first : first + size]


_QUEUES = 100


class RedisViews(RedisCalls, ViewStore):
    """What pages show of a Redis store."""

    def count_waiting(self, definition_id: UUID, *, most: int) -> int:
        """How many instances of a definition have not ended, and have not begun."""
        found: int = self._server.run("count_waiting", of=definition_id.hex, most=most)
        return found

    def list_backlog(
        self, most: int, *, queues: Collection[str] | None = None
    ) -> Sequence[Backlog]:
        """What is due and has not been claimed, by queue."""
        limit = _QUEUES if queues is None else LOOKED_AT
        found = self._server.run("list_backlog", now=self._now(), limit=limit)
        return [
            Backlog(
                queue=queue,
                due=Counted.up_to(most, number),
                oldest=given_time(oldest),
            )
            for queue, number, oldest in found
            if queues is None or queue in queues
        ][:_QUEUES]

    def list_waiting(
        self,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        limit: int,
    ) -> Sequence[TaskInstance]:
        """Read what can be claimed, or will be when it is due, earliest due first."""
        return self._first("list_waiting", queues, owners, limit)

    def list_ended(
        self,
        outcome: Outcome,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        before: Position | None = None,
        limit: int,
    ) -> Stretch:
        """Read instances that ended in one way, those that ended last first."""
        last = "+"
        if before is not None:
            last = f"({maybe_time_text(before.at)}{before.id.hex}"
        sets = {"sets": [f"e:{outcome.value}"]}
        walked = self._lists.walk(sets, "-", last, newest_first=True, limit=limit + 1)
        page: list[TaskInstance] = []
        most, end = _looked_at(limit, queues, owners), None
        for number, each in enumerate(walked):
            if number == most or len(page) == limit:
                return Stretch(found=page, next=end)
            page += _among([each], queues, owners)
            end = Position(at=each.completed_at, id=each.id)
        return Stretch(found=page, next=None)

    def list_claims(
        self,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        limit: int,
    ) -> Sequence[TaskInstance]:
        """Read what nodes hold and run, those first whose claims expire first."""
        return self._first("list_claims", queues, owners, limit)

    def _first(
        self,
        script: str,
        queues: Collection[str] | None,
        owners: Collection[str] | None,
        limit: int,
    ) -> Sequence[TaskInstance]:
        most = _looked_at(limit, queues, owners)
        found = self._reader.instances(self._server.run(script, limit=most))
        return list(islice(_among(found, queues, owners), limit))

    def list_fired(
        self,
        definition_id: UUID,
        *,
        since: datetime,
        before: datetime,
        newest_first: bool = False,
        limit: int,
    ) -> Sequence[TaskInstance]:
        """Read what a definition has fired, in the order of fire times."""
        walked = self._lists.walk(
            {"of": definition_id.hex, "set": "df:"},
            f"[{time_text(since)}",
            f"({time_text(before)}",
            newest_first=newest_first,
            limit=limit,
        )
        return list(islice(walked, limit))

    def list_unscheduled(
        self, definition_id: UUID, *, limit: int
    ) -> Sequence[TaskInstance]:
        """Read what a definition has without a fire time, the latest first."""
        sets = {"of": definition_id.hex, "set": "du:"}
        walked = self._lists.walk(sets, "-", "+", newest_first=True, limit=limit)
        return list(islice(walked, limit))

    def search_names(
        self,
        prefix: str,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        limit: int,
    ) -> Sequence[TaskDefinition]:
        """Read definitions whose name begins with a text, of ten thousand such."""
        most = _looked_at(limit, queues, owners)
        found = self._reader.definitions(
            self._server.run("search_names", prefix=prefix, limit=most, most=LOOKED_AT)
        )
        return [each for each in found if is_among(each, queues, owners)][:limit]

    def search_key(
        self,
        key: str,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        limit: int,
    ) -> Sequence[TaskInstance]:
        """Read the instances that have a key, of a thousand such at most."""
        most = _looked_at(limit, queues, owners)
        found = self._reader.instances(
            self._server.run("search_key", key=key, limit=most, most=KEYS_LOOKED_AT)
        )
        return list(islice(_among(found, queues, owners), limit))


def _looked_at(
    limit: int, queues: Collection[str] | None, owners: Collection[str] | None
) -> int:
    """Of how many some are picked."""
    return limit if queues is None and owners is None else LOOKED_AT


def _among(
    instances: Iterable[TaskInstance],
    queues: Collection[str] | None,
    owners: Collection[str] | None,
) -> Iterable[TaskInstance]:
    return (each for each in instances if is_among(each.definition, queues, owners))


class RedisInstanceLists(RedisCalls, InstanceStore):
    """What a ``RedisStore`` knows of instances."""

    def list_claimed(
        self, node: UUID, *, after: TaskInstance | None = None, limit: int = 100
    ) -> Sequence[TaskInstance]:
        """Read a page of what a node has claimed and has not ended."""
        last = None if after is None else after.id.hex
        answer = self._server.run(
            "list_claimed", node=node.hex, after=last, limit=limit
        )
        return self._reader.instances(answer)

    def get_instance(self, instance_id: UUID) -> TaskInstance:
        """Read one instance."""
        found = self._reader.instances(
            self._server.run("get_instance", id=instance_id.hex)
        )
        if not found:
            raise TaskInstanceNotFoundError(instance_id)
        return found[0]

    def slot_holder(self, slot: str) -> TaskInstance | None:
        """Read which instance has a slot."""
        found = self._reader.instances(self._server.run("get_instance", slot=slot))
        return found[0] if found else None

    def list_runs(self, instance_id: UUID) -> Sequence[TaskRun]:
        """Read what is kept of the runs of an instance."""
        kept = self._server.run("list_runs", id=instance_id.hex)
        return [read_run(instance_id, each) for each in kept]

    def list_instances(
        self,
        *,
        definition_id: UUID | None = None,
        name: str | None = None,
        key: str | None = None,
        state: State | None = None,
        since: datetime | None = None,
        fired_since: datetime | None = None,
        fired_before: datetime | None = None,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        newest_first: bool = False,
        after: Position | None = None,
        limit: int = 100,
    ) -> Sequence[TaskInstance]:
        """Read a page of the instances that meet every condition given."""
        walked = self._lists.instances(
            definition_id=definition_id,
            name=name,
            key=key,
            state=state,
            since=since,
            queues=queues,
            owners=owners,
            newest_first=newest_first,
            after=after,
            limit=limit,
        )
        found = (
            each
            for each in walked
            if (key is None or each.key == key)
            and (state is None or each.state is state)
            and is_fired_within(each, fired_since, fired_before)
        )
        return list(islice(found, limit))

    def counts(
        self,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
    ) -> Mapping[State, int]:
        """How many instances are in each state; every state has a number."""
        if queues is None and owners is None:
            states = [each.value for each in State]
            numbers = map(int, self._server.run("counts", states=states))
            return dict(zip(State, numbers, strict=True))
        walked = self._lists.instances(queues=queues, owners=owners)
        mine = Counter(each.state for each in walked)
        return {state: mine[state] for state in State}
