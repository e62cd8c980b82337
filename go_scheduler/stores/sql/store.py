"""What all SQL stores share: what is read, and what users do to definitions.

What the loops do many times a second is written once for each family of engines, in
``postgresql`` and ``sqlite``.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID, uuid4

from sqlalchemy import (
    Connection,
    and_,
    case,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.orm import Session, scoped_session

from go_scheduler.clock import SystemClock
from go_scheduler.errors import (
    ConfigurationError,
    TaskDefinitionNotFoundError,
    TaskInstanceNotFoundError,
)
from go_scheduler.models import Outcome, State, TaskDefinition, TaskInstance
from go_scheduler.stores.base import TransactionalStore
from go_scheduler.stores.changes import (
    check_revision,
    created,
    edited,
    next_revision,
    rescheduled,
)
from go_scheduler.stores.sql.commits import when_committed
from go_scheduler.stores.sql.contents import ContentsCache
from go_scheduler.stores.sql.database import Lane, Overtaken
from go_scheduler.stores.sql.rows import (
    DEFINITION_COLUMNS,
    INSTANCE_COLUMNS,
    DefinitionRow,
    missing_definition,
    read_contents,
    read_definition,
    read_instance,
    write_contents,
    write_definition,
)
from go_scheduler.stores.sql.sweep import LATE
from go_scheduler.stores.sql.tables import contents, definitions, instances

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
    from datetime import datetime
    from typing import Any

    from sqlalchemy import ColumnElement, Row

    from go_scheduler.clock import Clock
    from go_scheduler.json import JSON
    from go_scheduler.models import RunOutcome
    from go_scheduler.stores.sql.database import Database
    from go_scheduler.stores.sql.schema import Schema

Listed = TypeVar("Listed")

_INSTANCE = [instances.c[name] for name in INSTANCE_COLUMNS]


class SQLStore(TransactionalStore):
    """Keeps definitions and instances in a database.

    Attributes:
        shards: Over how many parts of an index what is due is spread.
    """

    shards = 1
    _dialect: str

    def __init__(
        self, database: Database, *, schema: Schema, clock: Clock | None = None
    ) -> None:
        super().__init__(clock)
        self._database = database
        self._schema = schema
        self._contents = ContentsCache()
        self._elapsed = (clock or SystemClock()).elapsed

    @property
    def retries(self) -> Mapping[str, int]:
        """How many statements were repeated, by the code of the error they met."""
        return dict(self._database.repeats)

    def initialize(self) -> None:
        """Bring the schema up to date, or check that it is."""
        self._schema.prepare(self._database)

    def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        self._database.close()

    def now(self) -> datetime:
        """The time of the clock that was passed, else the database's."""
        return self._database.run(Lane.SCANS, self._now)

    # What a family of engines says in its own words.

    @abstractmethod
    def _now(self, connection: Connection) -> datetime:
        """The store's time."""

    @abstractmethod
    def _among(
        self, column: ColumnElement[Any], ids: Collection[UUID]
    ) -> ColumnElement[bool]:
        """Whether a column is one of many ids, as one parameter."""

    @abstractmethod
    def _contains(self, metadata: Mapping[str, JSON]) -> ColumnElement[bool]:
        """Whether a definition's metadata contains this."""

    # What users do to definitions.

    def put_definitions(
        self, definitions: Sequence[TaskDefinition]
    ) -> Sequence[TaskDefinition]:
        """Insert each definition, or replace the one with its id."""
        if not definitions:
            return []
        return self._database.transact(
            lambda connection: self._put(connection, definitions),
            # Done and then repeated, it would conflict with itself.
            repeatable=all(each.revision is None for each in definitions),
        )

    def put_definitions_in(
        self,
        connection: object,
        definitions: Sequence[TaskDefinition],
        *,
        committed: Callable[[], None] | None = None,
    ) -> Sequence[TaskDefinition]:
        """Put definitions within a transaction of the user's."""
        joined = self._database.join(lambda: self._join(connection))
        # It becomes visible at any time later, below the bound of every scan.
        put = self._database.join(lambda: self._put(joined, definitions, late=True))
        if committed is not None:
            when_committed(connection, committed)
        return put

    def finish_instance_in(self, connection: object, outcome: RunOutcome) -> bool:
        """Record the end of one run within a transaction of the user's."""
        joined = self._database.join(lambda: self._join(connection))
        return self._database.join(lambda: self._end(joined, outcome))

    def _join(self, connection: object) -> Connection:
        """The connection behind what a user passed, if it is one to this engine."""
        if isinstance(connection, scoped_session):
            connection = connection()
        if isinstance(connection, Session):
            connection = connection.connection()
        if not isinstance(connection, Connection):
            raise ConfigurationError(
                "connection must be a SQLAlchemy Connection or Session, not"
                f" {connection!r:.200}"
            )
        name = connection.dialect.name
        if name != self._dialect:
            raise ConfigurationError(
                f"connection is to a {name} database; the store is in {self._dialect}"
            )
        if not connection.in_transaction():
            # As its first statement would; SQLite's says then whether it is in one.
            connection.begin()
        if self._in_autocommit(connection):
            raise ConfigurationError(
                "connection is in autocommit: there is no transaction to take part in"
            )
        return connection

    def _in_autocommit(self, connection: Connection) -> bool:
        """Whether a connection of the user's commits each statement by itself."""
        driver = connection.connection.dbapi_connection
        return connection.dialect.detect_autocommit_setting(driver)

    def get_definition(self, definition_id: UUID) -> TaskDefinition:
        """Read one definition."""
        found = self._database.run(
            Lane.USERS, lambda connection: self._live(connection, [definition_id])
        )
        if not found:
            raise TaskDefinitionNotFoundError(definition_id)
        return _definition(found[0])

    def list_definitions(
        self,
        *,
        ids: Collection[UUID] | None = None,
        metadata: Mapping[str, JSON] | None = None,
        name: str | None = None,
        queue: str | None = None,
        after: UUID | None = None,
        limit: int = 100,
    ) -> Sequence[TaskDefinition]:
        """Read a page of the definitions that meet every condition given."""
        query = _LIVE.order_by(definitions.c.id).limit(limit)
        if ids is not None:
            query = query.where(self._among(definitions.c.id, ids))
        if metadata is not None:
            query = query.where(self._contains(metadata))
        if name is not None:
            query = query.where(contents.c.name == name)
        if queue is not None:
            query = query.where(definitions.c.queue == queue)
        if after is not None:
            query = query.where(definitions.c.id > after)
        return self._list(
            lambda connection: [_definition(row) for row in connection.execute(query)]
        )

    def delete_definitions(self, ids: Collection[UUID]) -> Set[UUID]:
        """Delete definitions, at once and with all that is not running."""
        return self._database.transact(lambda connection: self._delete(connection, ids))

    def pause_definitions(
        self, ids: Collection[UUID], *, note: str | None = None
    ) -> Sequence[TaskDefinition]:
        """Pause definitions, so that nothing of theirs starts."""
        return self._database.transact(
            lambda connection: [
                self._pause(connection, row, note)
                for row in self._live(connection, ids)
            ]
        )

    def resume_definitions(self, ids: Collection[UUID]) -> Sequence[TaskDefinition]:
        """End a pause."""
        return self._database.transact(
            lambda connection: [
                self._resume(connection, row) for row in self._live(connection, ids)
            ]
        )

    # What users read of instances.

    def get_instance(self, instance_id: UUID) -> TaskInstance:
        """Read one instance."""
        query = select(*_INSTANCE).where(instances.c.id == instance_id)
        found = self._database.run(
            Lane.USERS,
            lambda connection: self._read(connection, connection.execute(query)),
        )
        if not found:
            raise TaskInstanceNotFoundError(instance_id)
        return found[0]

    def list_instances(
        self,
        *,
        definition_id: UUID | None = None,
        state: State | None = None,
        after: TaskInstance | None = None,
        limit: int = 100,
    ) -> Sequence[TaskInstance]:
        """Read a page of the instances that meet every condition given."""
        column = instances.c
        query = select(*_INSTANCE).order_by(column.execute_at, column.id).limit(limit)
        if definition_id is not None:
            key = (
                select(definitions.c.key)
                .where(
                    definitions.c.id == definition_id,
                    definitions.c.deleted_at.is_(None),
                )
                .scalar_subquery()
            )
            query = query.where(column.definition_key == key)
        if state is not None:
            query = query.where(_state == state.value)
        if after is not None:
            later = column.execute_at > after.execute_at
            same = and_(column.execute_at == after.execute_at, column.id > after.id)
            query = query.where(or_(later, same))
        return self._list(
            lambda connection: self._read(connection, connection.execute(query))
        )

    def counts(self) -> Mapping[State, int]:
        """How many instances are in each state; every state has a number."""
        query = select(_state, func.count()).group_by(_state)
        found = self._list(
            lambda connection: {row[0]: row[1] for row in connection.execute(query)}
        )
        return {state: found.get(state.value, 0) for state in State}

    def _list(self, read: Callable[[Connection], Listed]) -> Listed:
        """Read what need not be of this very moment."""

        def listed(connection: Connection) -> Listed:
            with self._listing(connection):
                return read(connection)

        return self._database.run(Lane.USERS, listed)

    def _listing(self, connection: Connection) -> AbstractContextManager[None]:
        """Around the statements of a list."""
        return nullcontext()

    # Reading rows.

    def _read(
        self, connection: Connection, rows: Iterable[Row[Any]]
    ) -> list[TaskInstance]:
        """The instances of rows that have ``INSTANCE_COLUMNS``."""
        found = list(rows)
        by_key = self._definitions_by_key(
            connection, {row.definition_key for row in found}
        )
        return [
            read_instance(
                row,
                by_key.get(row.definition_key)
                or missing_definition(row.definition_key),
            )
            for row in found
        ]

    def _definitions_by_key(
        self, connection: Connection, keys: Collection[UUID]
    ) -> Mapping[UUID, TaskDefinition]:
        if not keys:
            return {}
        query = select(definitions).where(self._among(definitions.c.key, keys))
        rows = connection.execute(query).all()
        return dict(
            zip(
                (row.key for row in rows),
                self._with_contents(connection, rows),
                strict=True,
            )
        )

    def _with_contents(
        self, connection: Connection, rows: Sequence[Row[Any] | DefinitionRow]
    ) -> list[TaskDefinition]:
        """The definitions of rows of ``task_definitions``; contents may be cached."""
        cache = self._contents
        known = {row.key: cache.get(row.key, row.revision) for row in rows}
        unknown = [key for key, found in known.items() if found is None]
        fetched: Mapping[UUID, Row[Any]] = {}
        if unknown:
            query = select(contents).where(self._among(contents.c.key, unknown))
            fetched = {row.key: row for row in connection.execute(query)}
        return [
            read_definition(
                row,
                known[row.key]
                or cache.put(row.key, row.revision, fetched.get(row.key)),
            )
            for row in rows
        ]

    def _assemble(
        self, lane: Lane, rows: Sequence[DefinitionRow]
    ) -> list[TaskDefinition]:
        """As ``_with_contents``, without a connection if all contents are known."""
        found = [(row, self._contents.get(row.key, row.revision)) for row in rows]
        known = [read_definition(row, given) for row, given in found if given]
        if len(known) == len(rows):
            return known
        return self._database.run(
            lane, lambda connection: self._with_contents(connection, rows)
        )

    def _read_both(self, lane: Lane, rows: Sequence[Row[Any]]) -> list[TaskInstance]:
        """The instances of rows that have their definition's columns as well."""
        first, last = len(INSTANCE_COLUMNS), len(INSTANCE_COLUMNS + DEFINITION_COLUMNS)
        distinct = {
            row[first]: DefinitionRow(*row[first:last])
            for row in rows
            if row[first] is not None
        }
        assembled = self._assemble(lane, list(distinct.values()))
        by_key = dict(zip(distinct, assembled, strict=True))
        return [
            read_instance(row, by_key.get(row[first]) or missing_definition(row[1]))
            for row in rows
        ]

    def _live(
        self, connection: Connection, ids: Collection[UUID]
    ) -> Sequence[Row[Any]]:
        """Definitions with their contents, in the order of their ids."""
        query = _LIVE.where(self._among(definitions.c.id, ids)).order_by(
            definitions.c.id
        )
        return connection.execute(query).all()

    def _end(self, connection: Connection, outcome: RunOutcome) -> bool:
        """Record the end of a run; written so that every driver understands it."""
        assert outcome.outcome is not None
        now = self._now(connection)
        column = instances.c
        statement = (
            update(instances)
            .where(
                column.id == outcome.claim.instance_id,
                column.attempt == outcome.claim.attempt,
                column.completed_at.is_(None),
                column.claimed_by.is_not(None),
            )
            .values(
                outcome=outcome.outcome.value,
                completed_at=now,
                started_at=outcome.started_at,
            )
            .returning(column.definition_key, column.waits)
        )
        ended = connection.execute(statement).one_or_none()
        if ended is None:
            return False
        if ended.waits:
            self._go_on(connection, ended.definition_key, outcome.next_fire_time, now)
        return True

    def _go_on(
        self,
        connection: Connection,
        key: UUID,
        next_fire_time: datetime | None,
        now: datetime,
    ) -> None:
        """Move a definition on that waited for the end of an instance."""
        connection.execute(
            update(definitions)
            .where(
                definitions.c.key == key,
                definitions.c.waits,
                definitions.c.next_fire_time.is_(None),
                definitions.c.completed_at.is_(None),
                definitions.c.deleted_at.is_(None),
            )
            .values(
                next_fire_time=next_fire_time,
                # Committed by somebody else, at any time later.
                late=next_fire_time is not None,
                completed_at=now if next_fire_time is None else None,
            )
        )

    # Putting.

    def _put(
        self,
        connection: Connection,
        given: Sequence[TaskDefinition],
        *,
        late: bool = False,
    ) -> Sequence[TaskDefinition]:
        now = self._now(connection)
        ids = [each.id for each in given]
        stored = {row.id: row for row in self._live(connection, ids)}
        for new in given:
            row = stored.get(new.id)
            check_revision(new, None if row is None else _definition(row))
        # One order for everybody, so that nobody waits for another in a circle.
        ordered = sorted(given, key=lambda each: each.id)
        fresh = [each for each in ordered if each.id not in stored]
        put = self._insert(connection, fresh, now, late=late)
        for new in ordered:
            if (row := stored.get(new.id)) is not None:
                put[new.id] = self._replace(connection, row, new, now, late=late)
        return [put[each.id] for each in given]

    def _insert(
        self,
        connection: Connection,
        given: Sequence[TaskDefinition],
        now: datetime,
        *,
        late: bool,
    ) -> dict[UUID, TaskDefinition]:
        if not given:
            return {}
        first = self._first_revisions(connection, [each.id for each in given])
        made = [
            created(each, now, revision=first.get(each.id, 0) + 1) for each in given
        ]
        keys = [uuid4() for _ in made]
        rows = [
            {
                **write_definition(each),
                **_moment(each, now, late=late),
                "key": key,
                "id": each.id,
                "shard": key.int % self.shards,
                "created_at": now,
            }
            for key, each in zip(keys, made, strict=True)
        ]
        inserted = connection.execute(self._insert_new_ids(), rows)
        if len(inserted.all()) < len(made):
            raise Overtaken
        connection.execute(
            insert(contents),
            [
                {"key": key, **self._write_contents(each)}
                for key, each in zip(keys, made, strict=True)
            ],
        )
        return {each.id: each for each in made}

    @abstractmethod
    def _insert_new_ids(self) -> Any:
        """Insert definitions, but for ids that exist; answer those inserted."""

    def _write_contents(self, definition: TaskDefinition) -> dict[str, object]:
        """The columns of ``task_contents``, but for the key."""
        return write_contents(definition)

    def _first_revisions(
        self, connection: Connection, ids: Collection[UUID]
    ) -> Mapping[UUID, int]:
        """The highest revisions that deleted definitions of these ids had."""
        query = (
            select(definitions.c.id, func.max(definitions.c.revision))
            .where(
                self._among(definitions.c.id, ids),
                definitions.c.deleted_at.is_not(None),
            )
            .group_by(definitions.c.id)
        )
        return {row[0]: row[1] for row in connection.execute(query)}

    def _replace(
        self,
        connection: Connection,
        row: Row[Any],
        new: TaskDefinition,
        now: datetime,
        *,
        late: bool,
    ) -> TaskDefinition:
        old = _definition(row)
        if new.is_same(old):
            return old
        if new.trigger == old.trigger:
            changed = edited(old, new)
            moment: dict[str, object] = {}
        else:
            changed = rescheduled(old, new, now)
            moment = _moment(changed, now, late=late)
        written = self._change(connection, row, {**write_definition(changed), **moment})
        connection.execute(
            update(contents)
            .where(contents.c.key == row.key)
            .values(self._write_contents(changed))
        )
        if moment:
            self._remove_unstarted(connection, row.key)
        self._follow(connection, row, changed, now)
        return replace(
            changed,
            next_fire_time=written.next_fire_time,
            completed_at=written.completed_at,
        )

    def _change(
        self, connection: Connection, row: Row[Any], values: Mapping[str, object]
    ) -> Row[Any]:
        """Update a definition's row, unless somebody else has changed it since.

        From here on, no fire of this definition wins until the transaction has ended.
        """
        statement = (
            update(definitions)
            .where(
                definitions.c.key == row.key,
                definitions.c.revision == row.revision,
                definitions.c.deleted_at.is_(None),
            )
            .values(values)
            .returning(definitions.c.next_fire_time, definitions.c.completed_at)
        )
        written = connection.execute(statement).one_or_none()
        if written is None:
            raise Overtaken
        return written

    def _follow(
        self,
        connection: Connection,
        row: Row[Any],
        changed: TaskDefinition,
        now: datetime,
    ) -> None:
        """Let open instances follow their definition."""
        written = write_definition(changed)
        if changed.queue != row.queue:
            self._free_unstarted(connection, row.key, now)
        connection.execute(
            update(instances)
            .where(*_open_of(row.key))
            .values({name: written[name] for name in _FOLLOWING})
        )

    def _remove_unstarted(
        self, connection: Connection, key: UUID
    ) -> Sequence[datetime]:
        """Remove what may be served anew, and answer the fire times."""
        statement = (
            delete(instances)
            .where(
                *_open_of(key),
                instances.c.started_at.is_(None),
                instances.c.runs == 0,
                instances.c.fire_time.is_not(None),
            )
            .returning(instances.c.fire_time)
        )
        return [row.fire_time for row in connection.execute(statement)]

    def _free_unstarted(self, connection: Connection, key: UUID, now: datetime) -> None:
        """Take back the claims that have not started."""
        connection.execute(
            update(instances)
            .where(
                *_open_of(key),
                instances.c.claimed_by.is_not(None),
                instances.c.started_at.is_(None),
            )
            .values(claimed_by=None, expires_at=None, claimable_at=_claimable_at(now))
        )

    # Pausing and deleting.

    def _pause(
        self, connection: Connection, row: Row[Any], note: str | None
    ) -> TaskDefinition:
        old = _definition(row)
        if row.paused:
            self._change(connection, row, {"note": note})
            return replace(old, note=note)
        now = self._now(connection)
        revision = next_revision(old)
        written = self._change(
            connection, row, {"paused": True, "note": note, "revision": revision}
        )
        removed = self._remove_unstarted(connection, row.key)
        self._free_unstarted(connection, row.key, now)
        connection.execute(
            update(instances)
            .where(*_open_of(row.key))
            .values(held=True, claimable_at=None)
        )
        paused = replace(
            old,
            paused=True,
            note=note,
            revision=revision,
            next_fire_time=min(
                [*removed, *filter(None, [written.next_fire_time])], default=None
            ),
            completed_at=written.completed_at,
        )
        if paused.next_fire_time is not None:
            paused = replace(paused, completed_at=None)
        if removed:
            connection.execute(
                update(definitions)
                .where(definitions.c.key == row.key)
                .values(next_fire_time=paused.next_fire_time, completed_at=None)
            )
        return paused

    def _resume(self, connection: Connection, row: Row[Any]) -> TaskDefinition:
        old = _definition(row)
        if not row.paused:
            return old
        now = self._now(connection)
        resumed = replace(old, paused=False, note=None, revision=next_revision(old))
        self._change(
            connection,
            row,
            {
                "paused": False,
                "note": None,
                "revision": resumed.revision,
                # Fire times may pass for as long as it was paused.
                "late": _is_late(old.next_fire_time, now),
            },
        )
        connection.execute(
            update(instances)
            .where(*_open_of(row.key))
            # A claim that lapsed long ago would lie below the bound of every scan.
            .values(held=False, expires_at=_no_earlier(instances.c.expires_at, now))
        )
        connection.execute(
            update(instances)
            .where(*_open_of(row.key), instances.c.claimed_by.is_(None))
            .values(claimable_at=_claimable_at(now, held=False))
        )
        return resumed

    def _delete(self, connection: Connection, ids: Collection[UUID]) -> Set[UUID]:
        now = self._now(connection)
        statement = (
            update(definitions)
            .where(
                self._among(definitions.c.id, ids), definitions.c.deleted_at.is_(None)
            )
            .values(deleted_at=now, next_fire_time=None, completed_at=None)
            .returning(definitions.c.key, definitions.c.id)
        )
        deleted = {row.key: row.id for row in connection.execute(statement)}
        if not deleted:
            return set()
        theirs = [
            self._among(instances.c.definition_key, deleted),
            instances.c.completed_at.is_(None),
            instances.c.outcome.is_(None),
        ]
        connection.execute(
            update(instances)
            .where(*theirs, instances.c.started_at.is_not(None))
            .values(
                outcome=Outcome.CANCELLED.value, completed_at=now, claimable_at=None
            )
        )
        connection.execute(
            delete(instances).where(*theirs, instances.c.started_at.is_(None))
        )
        return set(deleted.values())


# What instances have of their definition's, for claims and starts without a join.
_FOLLOWING = ("queue", "expire_after", "waits")
_LIVE = (
    select(definitions, *(each for each in contents.c if each.name != "key"))
    .outerjoin(contents, contents.c.key == definitions.c.key)
    .where(definitions.c.deleted_at.is_(None))
)
_state = case(
    (instances.c.outcome.is_not(None), instances.c.outcome),
    (instances.c.claimed_by.is_(None), literal(State.PENDING.value)),
    (instances.c.started_at.is_(None), literal(State.CLAIMED.value)),
    else_=literal(State.RUNNING.value),
)


def _definition(row: Row[Any]) -> TaskDefinition:
    """The definition of a row that has its contents as well."""
    has_contents = row.trigger_kind is not None
    return read_definition(row, read_contents(row if has_contents else None))


def _open_of(key: UUID) -> Sequence[ColumnElement[bool]]:
    column = instances.c
    return (
        column.definition_key == key,
        column.completed_at.is_(None),
        column.outcome.is_(None),
    )


def _claimable_at(now: datetime, *, held: bool | None = None) -> ColumnElement[Any]:
    """When an instance that is pending again joins the line."""
    moment = _no_earlier(instances.c.due_at, now)
    return moment if held is False else case((instances.c.held, None), else_=moment)


def _no_earlier(column: ColumnElement[Any], now: datetime) -> ColumnElement[Any]:
    """The later of a time, if there is one, and now."""
    return case((column < now, literal(now, column.type)), else_=column)


def _moment(
    definition: TaskDefinition, now: datetime, *, late: bool
) -> dict[str, object]:
    """The columns that say when a definition fires next, if it starts anew."""
    return {
        "next_fire_time": definition.next_fire_time,
        "late": late or _is_late(definition.next_fire_time, now),
        "completed_at": definition.completed_at,
    }


def _is_late(next_fire_time: datetime | None, now: datetime) -> bool:
    return next_fire_time is not None and next_fire_time <= now - LATE
