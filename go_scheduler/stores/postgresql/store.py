"""The PostgreSQL store, which the CockroachDB store is a variant of."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from go_scheduler.checks import check_type
from go_scheduler.clock import StoreClock, SystemClock
from go_scheduler.errors import StoreError
from go_scheduler.stores.postgresql.added_instances import AddedInstances
from go_scheduler.stores.postgresql.claimed_instances import ClaimedInstances
from go_scheduler.stores.postgresql.dialect import PostgreSQLDialect
from go_scheduler.stores.postgresql.driver import EngineKind, fault_of, make_engines
from go_scheduler.stores.postgresql.due_definitions import DueDefinitions
from go_scheduler.stores.postgresql.due_instances import DueInstances
from go_scheduler.stores.postgresql.executing import (
    Contacts,
    Deletions,
    Statements,
    Writes,
)
from go_scheduler.stores.postgresql.listener import Listener
from go_scheduler.stores.postgresql.newcomers import Newcomers, ServerPutting
from go_scheduler.stores.postgresql.questions import QUESTIONS, examined
from go_scheduler.stores.rules import note_forgotten, with_silences
from go_scheduler.stores.sql.database import Classes, Database, Lane
from go_scheduler.stores.sql.reader import earliest_first
from go_scheduler.stores.sql.rows import silences_of
from go_scheduler.stores.sql.schema import Schema
from go_scheduler.stores.sql.spare import Spare, connect_as
from go_scheduler.stores.sql.store import SQLStore

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence, Set
    from datetime import datetime, timedelta

    from sqlalchemy import Connection
    from sqlalchemy.engine import URL

    from go_scheduler.clock import Clock
    from go_scheduler.models import Cancelled, TaskDefinition, TaskInstance
    from go_scheduler.stores.findings import Finding
    from go_scheduler.stores.hints import Hints
    from go_scheduler.stores.messages import (
        Addition,
        Announcement,
        Answer,
        Claim,
        Claimant,
        Fired,
        Firing,
        NodeContact,
        Release,
        Renewal,
        Retention,
        RunOutcome,
    )


_SHOWN = ("host", "port")


class PostgreSQLStore(SQLStore):
    """Keeps everything in a PostgreSQL database that any number of nodes share.

    Args:
        url: Such as ``postgresql://user:password@host:5432/database``; what follows a
            ``?`` goes to libpq, as in ``?sslmode=verify-full``. Several hosts, as in
            ``postgresql://user@a:5432,b:5432/database``, are tried in this order for
            the one that is the primary.
        clock: Used instead of the database's time, for tests.
        connect_args: More arguments of ``psycopg.connect``; they win over the URL.
        pool_size: Most connections for what is put that is new, and for what else is
            called by hand; the loops have at most six of their own.
        migrate: Whether ``initialize`` brings the schema up to date; without, it only
            checks that it is.
        hints: Whether what one process puts in is made known to the others at once,
            by NOTIFY, to which each node listens on a connection of its own. None: not
            through a pooler.

    Raises:
        ConfigurationError: The URL is none, or is one for another kind of database, or
            ``pool_size`` is below one, or ``hints`` is no truth value.
    """

    _kind = EngineKind.POSTGRESQL
    _questions = QUESTIONS
    _dialect: PostgreSQLDialect
    _putting: ServerPutting

    def __init__(
        self,
        url: str | URL,
        *,
        clock: Clock | None = None,
        connect_args: Mapping[str, object] | None = None,
        pool_size: int = 5,
        migrate: bool = True,
        hints: bool | None = None,
    ) -> None:
        if hints is not None:
            check_type("hints", hints, bool)
        engines, connects = make_engines(
            url, self._kind, connect_args=connect_args, pool_size=pool_size
        )
        spares = [
            Spare(engine, connects[lane], elapsed=lambda: self._elapsed())
            for lane, engine in engines.items()
        ]
        database = Database(
            engines, fault_of=fault_of, transaction=self._transaction, spares=spares
        )
        self._hints = hints
        self._listen = partial(connect_as, engines[Lane.NEW], connects[Lane.NEW])
        dialect = self._make_dialect(clock)
        schema = Schema(dialect.name, migrate)
        super().__init__(database, dialect, schema=schema, clock=clock)
        self._url = engines[Lane.BY_HAND].url
        self._statements = Statements(database, dialect, clock=clock)
        self._copy = StoreClock(SystemClock(), self.now, at_start=1)
        self._divide_the_work(dialect)

    def __repr__(self) -> str:
        query = {key: each for key, each in self._url.query.items() if key in _SHOWN}
        url = self._url.set(query=query).render_as_string(hide_password=True)
        return f"{type(self).__name__}({url!r})"

    def initialize(self) -> None:
        """Check the isolation level; bring the schema up to date, or check that it is.

        Raises:
            StoreError: Statements run at another level than the store has set, or the
                schema cannot be used.
        """
        self._database.run(Lane.BY_HAND, self._check_isolation)
        super().initialize()

    def _check_isolation(self, connection: Connection) -> None:
        level = self._kind.isolation_level
        found = connection.exec_driver_sql("SHOW transaction_isolation").scalar_one()
        if found.upper() != level:
            raise StoreError(
                f"statements run at isolation level {found.upper()}, and the store has"
                f" set default_transaction_isolation to {level}: see that no pooler or"
                " proxy before the server drops or changes this setting"
            )

    def connect(self) -> None:
        """Open all connections of the loops, so that no start waits for one."""
        self._database.connect([Lane.BY_TIME, Lane.BY_KEY, Lane.RENEWALS])

    def examine(self) -> Sequence[Finding]:
        """What is wrong with the database itself."""
        return examined(self._database, self._questions)

    def hints(self) -> Hints | None:
        """A connection that listens, unless it is not to be."""
        through_pooler = self._hints is True
        return None if self._hints is False else Listener(self._listen, through_pooler)

    @contextmanager
    def _transaction(self, connection: Connection) -> Iterator[None]:
        level = self._kind.isolation_level
        with connection.execution_options(isolation_level=level).begin():
            yield

    def _make_dialect(self, clock: Clock | None) -> PostgreSQLDialect:
        return PostgreSQLDialect(clock, notifies=self._hints is not False)

    def _divide_the_work(self, dialect: PostgreSQLDialect) -> None:
        statements, reader = self._statements, self._reader
        self._writes = Writes(statements)
        newcomers = Newcomers(statements, shards=dialect.shards)
        self._putting = ServerPutting(self._database, newcomers, self._puts, reader)
        self._added_instances = AddedInstances(
            self._database,
            statements,
            self._additions,
            reader,
            shards=dialect.shards,
        )
        self._due_definitions = DueDefinitions(
            statements, self._writes, reader, shards=dialect.shards
        )
        self._classes = Classes(self._elapsed)
        self._due_instances = DueInstances(
            statements,
            self._classes,
            shards=dialect.shards,
            reads_rows=dialect.reads_rows,
        )
        self._claimed_instances = ClaimedInstances(statements, self._writes, reader)
        self._contacts = Contacts(statements)
        self._deletions = Deletions(statements)

    def now_between(self) -> tuple[datetime, datetime]:
        """By an answer that is at most ten seconds old, or a new one."""
        if self.clock is not None:
            return super().now_between()
        self._copy.refresh(waits=True)
        now = self._copy.now()
        return now, now + self._copy.round_trip

    # Definitions.

    def put_definitions(
        self, definitions: Sequence[TaskDefinition]
    ) -> Sequence[TaskDefinition]:
        """Insert each definition, or replace the one with its id."""
        self._classes.seen(definitions)
        if len(definitions) == 1 and (new := self._putting.put_new(definitions[0])):
            return [new]
        return super().put_definitions(definitions)

    def put_and_start(
        self, firing: Firing, claimant: Claimant
    ) -> tuple[TaskDefinition, TaskInstance | None]:
        """Put one definition, and start it if it is new."""
        self._classes.seen([firing.definition])
        started = self._putting.start(firing, claimant)
        return started or super().put_and_start(firing, claimant)

    def due_definitions(
        self, *, ahead: timedelta, after: TaskDefinition | None = None, limit: int
    ) -> Sequence[TaskDefinition]:
        """Read a page of the definitions that fire soon."""
        page = self._due_definitions.page(ahead, after, limit)
        return self._classes.seen(page)

    def fire_definitions(self, firings: Sequence[Firing]) -> Answer[Set[UUID]]:
        """Create the instances of each firing and move its definition on."""
        return self._due_definitions.fire(firings)

    def fire_and_start(self, firings: Sequence[Firing], claimant: Claimant) -> Fired:
        """Fire definitions, and start what they make."""
        return self._due_definitions.start(firings, claimant)

    # Instances.

    def add_instances(
        self, definition_id: UUID, additions: Sequence[Addition]
    ) -> Sequence[TaskInstance]:
        """Make instances of a definition that are no fire times'."""
        return self._added_instances.add(definition_id, additions)

    def _add_within(
        self,
        connection: Connection,
        definition_id: UUID,
        additions: Sequence[Addition],
    ) -> Sequence[TaskInstance]:
        """Make instances of a definition within a transaction."""
        return self._added_instances.add_within(connection, definition_id, additions)

    def add_and_start(
        self,
        definition_id: UUID,
        additions: Sequence[Addition],
        claimant: Claimant,
        *,
        names: Collection[str] | None,
    ) -> Sequence[TaskInstance]:
        """Make instances, and start those that are due."""
        return self._added_instances.start(
            definition_id, additions, claimant, names=names
        )

    def claim_instances(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
        deadline: datetime,
    ) -> Sequence[TaskInstance]:
        """Hand due instances to one node, and to no other."""
        old, new = self._due_instances.take(
            claimant,
            ahead=ahead,
            lead=lead,
            limit=limit,
            lapsed=lapsed,
            deadline=deadline,
        )
        rows = [*old, *new]
        claimed = self._reader.claimed(Lane.BY_TIME, rows, with_contents=True)
        lapsed_first = with_silences(claimed[: len(old)], silences_of(old))
        return earliest_first(lapsed_first) + earliest_first(claimed[len(old) :])

    def list_claimed(
        self, node: UUID, *, after: TaskInstance | None = None, limit: int = 100
    ) -> Sequence[TaskInstance]:
        """Read a page of what a node has claimed and has not ended."""
        last = UUID(int=0) if after is None else after.id
        return self._claimed_instances.page(node, last, limit)

    def start_instances(
        self, claimant: Claimant, claims: Sequence[Claim]
    ) -> Answer[Sequence[TaskInstance]]:
        """Record that handlers are about to be called."""
        return self._claimed_instances.start(claimant, claims)

    def renew_claims(self, renewals: Sequence[Renewal]) -> Answer[Mapping[UUID, bool]]:
        """Let claims hold for their ``lease`` from the store's time on."""
        return self._claimed_instances.renew(renewals)

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        """Record what became of runs."""
        return self._claimed_instances.finish(outcomes)

    def release_instances(self, releases: Sequence[Release]) -> Answer[Set[UUID]]:
        """Give back what was claimed and not called."""
        return self._claimed_instances.release(releases)

    def cancel_instances(
        self, cancellations: Mapping[UUID, datetime | None]
    ) -> Mapping[UUID, Cancelled]:
        """Cancel what has not started; ask what runs to stop."""
        return self._claimed_instances.cancel(cancellations)

    # Nodes.

    def note_contact(self, announced: Announcement, *, unbroken: timedelta) -> None:
        """Record that a node has been in contact with the store up to now."""
        self._contacts.note(announced, unbroken)

    def list_contacts(self, *, within: timedelta) -> Sequence[NodeContact]:
        """Read when nodes were in contact with the store."""
        return self._contacts.within(within)

    # Cleanup.

    def delete_finished(self, retention: Retention, *, limit: int) -> int:
        """Delete what ended long ago."""

        def forget(made: int) -> None:
            forgotten = self._database.run(
                Lane.BY_TIME,
                lambda connection: self._forget(
                    connection, retention.remembered, made=made, limit=limit
                ),
            )
            note_forgotten(forgotten, most=self.most_remembered)

        deleted = self._deletions.delete(retention, limit, forget=forget)
        # Nobody waits for a cleanup.
        self._database.replace_one()
        return deleted
