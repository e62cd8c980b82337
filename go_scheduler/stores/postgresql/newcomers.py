"""Definitions of ids that were never stored before, each batch by one statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from sqlalchemy.exc import IntegrityError

from go_scheduler.stores.changes import created, is_over_at_once
from go_scheduler.stores.postgresql import arrays
from go_scheduler.stores.slots import overlap_of, slot_of
from go_scheduler.stores.sql.database import Overtaken
from go_scheduler.stores.sql.rows import write_contents
from go_scheduler.stores.sql.sweep import LATE_AFTER
from go_scheduler.stores.sql.types import to_microseconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import Connection

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.postgresql.executing import Statements
    from go_scheduler.stores.sql.rows import ContentsRow


class Newcomer(NamedTuple):
    """A definition that was inserted, as it is stored."""

    definition: TaskDefinition
    key: UUID
    contents: ContentsRow


class Newcomers:
    """Inserts definitions of the PostgreSQL family without having to read first.

    Args:
        statements: Executes them.
        shards: Over how many parts of an index definitions are spread.
    """

    def __init__(self, statements: Statements, *, shards: int) -> None:
        self._statements = statements
        self._shards = shards

    def insert(
        self, connection: Connection, given: Sequence[TaskDefinition], *, late: bool
    ) -> Mapping[UUID, Newcomer]:
        """Insert those whose ids neither are nor were stored, nor are remembered.

        Args:
            connection: Of ours; in a transaction if there are several.
            given: The definitions.
            late: Whether others may see them only much later.

        Returns:
            Those that were inserted, by their ids.

        Raises:
            Overtaken: Somebody else has inserted one at the same moment.
        """
        # One order for all nodes, so that none waits for another in a circle.
        new = sorted(
            (each for each in given if each.revision is None), key=lambda each: each.id
        )
        if not new:
            return {}
        keys = [uuid4() for _ in new]
        contents = [write_contents(each) for each in new]
        shards = (key.int % self._shards for key in keys)
        parameters = {
            **_columns(new, contents),
            "keys": arrays.ids(keys),
            "shards": arrays.numbers(shards),
            "is_late": late,
        }
        now = self._execute(connection, parameters)
        return {
            each.id: Newcomer(created(each, now[each.id], revision=1), key, row)
            for each, key, row in zip(new, keys, contents, strict=True)
            if each.id in now
        }

    def _execute(
        self, connection: Connection, parameters: Mapping[str, object]
    ) -> Mapping[UUID, datetime]:
        """When each was inserted, by its id."""
        parameters = {**parameters, "late": LATE_AFTER}
        try:
            rows = self._statements.execute(connection, "insert_new", parameters)
        except IntegrityError as error:
            raise Overtaken from error
        return {row.id: row.now for row in rows}


def _columns(
    new: Sequence[TaskDefinition], contents: Sequence[ContentsRow]
) -> Mapping[str, object]:
    durations = (each.expire_after for each in new)
    return {
        "ids": arrays.ids(each.id for each in new),
        "queues": arrays.texts(each.queue for each in new),
        "priorities": arrays.numbers(each.priority for each in new),
        "expiries": arrays.numbers(
            None if each is None else to_microseconds(each) for each in durations
        ),
        "waits": arrays.truths(each.trigger.waits for each in new),
        "fire_times": arrays.times(each.next_fire_time for each in new),
        "over": arrays.truths(map(is_over_at_once, new)),
        "paused": arrays.truths(each.paused for each in new),
        "slots": arrays.texts(slot_of(each, fired=False) for each in new),
        "overlaps": arrays.words(overlap_of(each, fired=False) for each in new),
        "notes": arrays.texts(each.note for each in new),
        "named": arrays.truths(each.named for each in new),
        "names": arrays.texts(each.name for each in contents),
        "metadata": arrays.texts(each.metadata for each in contents),
        "kinds": arrays.texts(each.trigger_kind for each in contents),
        "states": arrays.texts(each.trigger_state for each in contents),
        "policies": arrays.texts(each.policies for each in contents),
    }
