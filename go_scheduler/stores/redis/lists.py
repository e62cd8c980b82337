"""The lists of a Redis store: a chunk at a time, of what may meet the conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.json import contains
from go_scheduler.models import State
from go_scheduler.stores.declared import is_among
from go_scheduler.stores.redis.facets import choices_of
from go_scheduler.stores.redis.texts import maybe_time_text, time_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.json import JSON
    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.messages import Position
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
