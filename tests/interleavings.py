"""Every order of the statements of two calls of a store, on a real PostgreSQL.

Each call is made by a node of its own, and stops ahead of every statement and of every
commit. One of both goes on, until it stops again or waits for a lock of the other. What
came of an order has to be what comes of the calls one after the other. A cleanup is
several calls, each of which ends with a commit.

``python -m tests.interleavings`` tries all orders of all pairs, in some minutes.
"""

from __future__ import annotations

import argparse
import re
import sys
import threading
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from itertools import combinations_with_replacement, pairwise
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import Mock, patch
from uuid import UUID

from psycopg.pq import TransactionStatus
from sqlalchemy import event

from go_scheduler.clock import ZERO
from go_scheduler.errors import GoSchedulerError, StoreUnavailableError
from go_scheduler.models import Outcome, TaskDefinition, TaskInstance
from go_scheduler.models.values import changed
from go_scheduler.policies import Overlap
from go_scheduler.stores import postgresql
from go_scheduler.stores.messages import Addition, Answer, Release
from go_scheduler.stores.postgresql import driver
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.stores.rules import Declaration
from go_scheduler.stores.sql.database import FOR_USERS
from go_scheduler.stores.sql.tables import metadata
from go_scheduler.testing import ManualClock
from go_scheduler.testing.builders import (
    EVERY_TWO_HOURS,
    HOUR,
    LEASE,
    MINUTE,
    NODE,
    OTHER_NODE,
    SECOND,
    WAITING,
    claim,
    claim_of,
    claimant,
    claimed,
    clean_up,
    definition,
    end_of,
    ended,
    fire,
    firing,
    pending,
    put,
    renewal_of,
    running,
    start,
    task,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START
from tests import servers
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from go_scheduler.stores.base import Store
    from go_scheduler.stores.sql.database import Lane

# How the calls find the tables, and what they do there.


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What is stored before both calls.

    Attributes:
        definition: As it was read then.
        instances: The first call is about the first one, the second about the last.
        clock: The time, which stands still.
    """

    definition: TaskDefinition
    instances: Sequence[TaskInstance]
    clock: ManualClock


def _one(make: Callable[..., TaskInstance], **values: Any) -> Callable[..., Scene]:
    """A definition with one instance."""

    def made(store: Store, clock: ManualClock) -> Scene:
        new = definition(**{"key": 9, **values})
        instance = make(store, new)
        return _scene(store, clock, instance)

    return made


def _scene(store: Store, clock: ManualClock, *instances: TaskInstance) -> Scene:
    read = store.get_definition(UUID(int=9))
    return Scene(definition=read, instances=instances, clock=clock)


def _nothing(_: Store, clock: ManualClock) -> Scene:
    return Scene(definition=definition(key=9), instances=(), clock=clock)


def _due(store: Store, clock: ManualClock) -> Scene:
    put(store, definition(key=9))
    return _scene(store, clock)


def _full(store: Store, clock: ManualClock) -> Scene:
    put(store, task(key=9, max_queue=1))
    return _scene(store, clock)


def _lapsed(store: Store, clock: ManualClock) -> Scene:
    instance = running(store, definition(key=9))
    clock.advance(LEASE)
    return _scene(store, clock, instance)


def _paused(store: Store, clock: ManualClock) -> Scene:
    instance = running(store, definition(key=9))
    store.pause_definitions([UUID(int=9)], note="why")
    return _scene(store, clock, instance)


def _excluding(store: Store, clock: ManualClock, *, starts: int) -> Scene:
    """Two that exclude each other, of which so many have asked for the slot."""
    new = replace(definition(key=9), overlap=Overlap.SKIP)
    fire(store, put(store, new), START, START - SECOND, next_fire_time=START + HOUR)
    instances = claim(store, lead=ZERO)
    if starts:
        start(store, *instances[:starts])
    read = [store.get_instance(each.id) for each in instances]
    return _scene(store, clock, *read)


SCENES: Mapping[str, Callable[[Store, ManualClock], Scene]] = {
    "nothing": _nothing,
    "due": _due,
    "pending": _one(pending),
    "claimed": _one(claimed, next_fire_time=START + SECOND),
    "running": _one(running),
    "its claim has lapsed": _lapsed,
    "waits for a retry": _one(waiting_for_retry),
    "failed": _one(partial(ended, outcome=Outcome.FAILED)),
    "completed": _one(ended),
    "runs and is paused": _paused,
    "its trigger waits": _one(running, trigger=WAITING),
    "its trigger has waited": _one(
        partial(ended, outcome=Outcome.FAILED), trigger=WAITING
    ),
    "two want one slot": partial(_excluding, starts=0),
    "one has the slot": partial(_excluding, starts=1),
    "one is parked": partial(_excluding, starts=2),
    "a queue of one": _full,
}


class Call(NamedTuple):
    """A call of a store, by a node, in a scene; ``one`` is the instance it is about."""

    store: Any
    scene: Scene
    node: UUID

    @property
    def one(self) -> TaskInstance:
        return self.scene.instances[0 if self.node == NODE else -1]


def _put(call: Call, **values: Any) -> object:
    new = replace(call.scene.definition, **{"revision": None, **values})
    return call.store.put_definitions([new])


def _declare(call: Call, *, there: bool) -> object:
    new = [replace(call.scene.definition, revision=None)] if there else []
    given = Declaration(owner="app", definitions=new, removed="delete", adopts=True)
    return call.store.declare_definitions(given)


def _fire(call: Call, *, starts: bool = False) -> object:
    of = call.scene.definition
    if of.next_fire_time is None:
        # It was due when it was read.
        of = changed(of, next_fire_time=START)
    step = firing(of, START, next_fire_time=START + 2 * HOUR)
    by = claimant(call.node) if starts else None
    return call.store.fire_definitions([step], claimant=by)


def _add(call: Call, *, starts: bool = False, **values: Any) -> object:
    new = Addition(id=UUID(int=call.node.int + 100), **values)
    by = claimant(call.node) if starts else None
    return call.store.add_instances(call.scene.definition.id, [new], claimant=by)


def _finish(call: Call, outcome: Outcome | None) -> object:
    end = end_of(
        call.one, outcome, started_at=START, error="e", next_fire_time=START + HOUR
    )
    return call.store.finish_instances([end])


OF_DEFINITIONS: Mapping[str, Callable[[Call], object]] = {
    "edit": partial(_put, name="b"),
    "edit what was read": lambda c: _put(
        c, name="b", revision=c.scene.definition.revision
    ),
    "edit the trigger": partial(
        _put, trigger=EVERY_TWO_HOURS, next_fire_time=START + 2 * HOUR
    ),
    "exclude": partial(_put, overlap=Overlap.BUFFER_ONE),
    "declare": partial(_declare, there=True),
    "declare without": partial(_declare, there=False),
    "pause": lambda c: c.store.pause_definitions([c.scene.definition.id], note="n"),
    "resume": lambda c: c.store.resume_definitions([c.scene.definition.id]),
    "delete": lambda c: c.store.delete_definitions([c.scene.definition.id]),
    "fire": _fire,
    "fire and start": partial(_fire, starts=True),
    "add": partial(_add, key="k"),
    "add and start": partial(_add, starts=True),
    "backfill": lambda c: c.store.backfill_instances(
        c.scene.definition, [START, START - HOUR], overlap=Overlap.ALLOW
    ),
    "claim": lambda c: claim(c.store, c.node, ahead=HOUR),
    "take over": lambda c: claim(c.store, c.node, lapsed=True),
    "review": lambda c: c.store.review_parked(limit=10),
    "clean up": lambda c: clean_up(c.store),
}
OF_INSTANCES: Mapping[str, Callable[[Call], object]] = {
    "start": lambda c: c.store.start_instances(claimant(c.node), [claim_of(c.one)]),
    "renew": lambda c: c.store.renew_claims([renewal_of(c.one, MINUTE)]),
    "hand on": lambda c: c.store.renew_claims(
        [renewal_of(c.one, handed_on=True, worker=str(c.node))]
    ),
    "release": lambda c: c.store.release_instances([Release(claim=claim_of(c.one))]),
    "complete": partial(_finish, outcome=Outcome.COMPLETED),
    "fail": partial(_finish, outcome=Outcome.FAILED),
    "retry": partial(_finish, outcome=None),
    "cancel": lambda c: c.store.cancel_instances({c.one.id: START + HOUR}),
    "reopen": lambda c: c.store.reopen_instances([c.one.id]),
}
CALLS = {**OF_DEFINITIONS, **OF_INSTANCES}
EDITS = {"edit", "edit what was read", "edit the trigger", "exclude", "declare"}
# They pass by what another transaction has locked, and find it the next time.
SCANS = {"claim", "take over", "review", "clean up"}
# The other one may come between its commits.
IN_PARTS = {"clean up"}


def pairs() -> Iterator[tuple[str, str, str]]:
    """Every scene with every pair of calls."""
    for scene in SCENES:
        without = scene in ("nothing", "due", "a queue of one")
        calls = OF_DEFINITIONS if without else CALLS
        for first, second in combinations_with_replacement(calls, 2):
            # Two edits meet at the definition, whatever becomes of its instances.
            if not {first, second} <= EDITS or scene in ("nothing", "pending"):
                yield scene, first, second


# What came of them.

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _parts(answer: object) -> Iterator[str]:
    """What a call has answered, part by part, so that two answers can be joined."""
    match answer:
        case Mapping():
            yield from (f"{key}: {_told(each)}" for key, each in answer.items())
        case Set() | list() | tuple():
            yield from map(_told, answer)
        case int():
            yield from ["deleted"] * answer
        case Answer():
            # What was busy is asked for again.
            yield from _parts(answer.done)
            yield from _parts(getattr(answer, "started", ()))
        case _:
            yield _told(answer)


def _told(value: object) -> str:
    if isinstance(value, TaskInstance):
        # Its definition is read in two parts, of which the second may be newer.
        return f"{value.id} {value.state} {value.attempt} {value.runs}"
    if is_dataclass(value):
        of = (
            f"{each.name}={_told(getattr(value, each.name))}" for each in fields(value)
        )
        return f"{type(value).__name__}({', '.join(of)})"
    if isinstance(value, list | tuple | Set):
        return str(sorted(map(_told, value)))
    return str(value)


class Outcomes(NamedTuple):
    """What came of two calls: their answers, and the rows."""

    answers: tuple[tuple[str, ...], ...]
    rows: tuple[str, ...]


class Tried(NamedTuple):
    """An order that was tried.

    Attributes:
        picks: Of each choice which call went on.
        steps: The statements, in this order.
        came_of: What came of them.
    """

    picks: Sequence[int]
    steps: Sequence[str]
    came_of: Outcomes


# How they are let go on.

_NO_SPARE = Mock(wanted=False)
# In seconds; less than a statement may take.
LONG = 8
COMMIT = "COMMIT"
_CHANGES = re.compile(r"\b(INSERT|UPDATE|DELETE|KEY SHARE)\b")


class Caller:
    """A call that stops ahead of each of its steps, until it may go on.

    Args:
        name: What it is called in the steps.
        node: The node that makes it.
        url: The database.
        patient: Whether also the loops wait for a lock, until it is free.

    Attributes:
        at: The step that it has stopped ahead of; empty: it has not stopped.
        answered: What was answered; None: it has not ended.
    """

    def __init__(self, name: str, node: UUID, url: str, *, patient: bool) -> None:
        self.name = name
        self.node = node
        self.at = ""
        self.answered: Sequence[str] | None = None
        self.is_busy = False
        self._url = url
        self._patient = patient
        self._may_wait = self._waits = False
        self._pid = 0
        self._open: psycopg.Connection[Any] | None = None
        self._thread: threading.Thread | None = None
        self._said: SimpleQueue[str] = SimpleQueue()
        self._go = threading.Semaphore(0)
        short = LONG if patient else driver.SHORT_LOCK_TIMEOUT
        with patch.multiple(driver, LOCK_TIMEOUT=LONG, SHORT_LOCK_TIMEOUT=short):
            self._first = PostgreSQLStore(url)
        self.close = self._first.close
        engines = self._first._database._engines
        self._engines = engines, dict.fromkeys(engines)
        for lane, engine in engines.items():
            before = partial(self._before, lane)
            event.listen(engine, "before_cursor_execute", before)
            event.listen(engine, "after_cursor_execute", self._after)
            event.listen(engine, "handle_error", self._failed)
            event.listen(engine, "commit", lambda _: self._stop(COMMIT))

    def store(self, clock: ManualClock) -> PostgreSQLStore:
        """A store that has read nothing yet, on connections that stay open."""
        with patch.multiple(
            postgresql.store,
            make_engines=lambda *_, **__: self._engines,
            Spare=lambda *_, **__: _NO_SPARE,
        ):
            return PostgreSQLStore(self._url, clock=clock)

    def begin(self, call: Callable[[], object]) -> None:
        """Make a call; it stops ahead of its first statement."""
        self.at, self.answered, self.is_busy = "", None, False
        self._thread = threading.Thread(target=self._run, args=[call], daemon=True)
        self._thread.start()

    def settle(self, server: psycopg.Connection[Any]) -> None:
        """Wait until it has stopped, has ended, or waits for a lock."""
        blocked = "SELECT 1 WHERE pg_blocking_pids(%s) <> '{}'"
        while not self.at and self.answered is None:
            try:
                self.at = self._said.get(timeout=0 if self._waits else 0.003)
            except Empty:
                found = server.execute(blocked, [self._pid]).fetchone()
                self._waits = self._may_wait and found is not None
                if self._waits:
                    return

    def go_on(self) -> None:
        """Let it make its next step."""
        self.at = ""
        self._go.release()

    def _run(self, call: Callable[[], object]) -> None:
        answered: Sequence[str]
        try:
            answer = call()
            answered = [*_parts(answer)]
            self.is_busy = isinstance(answer, Answer) and bool(answer.busy)
        except StoreUnavailableError:
            answered, self.is_busy = [], True
        except GoSchedulerError as error:
            answered = [type(error).__name__]
        except BaseException as error:
            answered = [f"{type(error).__name__}: {error}"]
        self.answered = answered
        self._said.put("")

    def _stop(self, step: str) -> None:
        if threading.current_thread() is self._thread:
            self._said.put(step)
            assert self._go.acquire(timeout=FAILED_AFTER)

    def _before(
        self, lane: Lane, _: object, cursor: Any, statement: str, *__: object
    ) -> None:
        connection = cursor.connection
        self._pid = connection.info.backend_pid
        self._may_wait = self._patient or lane in FOR_USERS
        if not statement.startswith("BEGIN"):
            self._stop(" ".join(statement.split()))
        idle = connection.info.transaction_status == TransactionStatus.IDLE
        if connection.autocommit and idle and _CHANGES.search(statement):
            # Its commit becomes a step of its own: others see what is not committed.
            connection.execute("BEGIN")
            self._open = connection

    def _after(self, *_: object) -> None:
        if (connection := self._open) is not None:
            self._stop(COMMIT)
            self._open = None
            connection.execute(COMMIT)

    def _failed(self, _: object) -> None:
        if (connection := self._open) is not None:
            self._open = None
            if not connection.closed:
                connection.execute("ROLLBACK")


class Interleavings:
    """Tries the orders of two calls, each from the same rows.

    Args:
        url: A database with the tables, which nobody else uses.
        patient: Whether also the loops wait for a lock, until it is free. If not, they
            leave aside what is locked, as they do it by default.
        switches: How often the other one goes on though it need not.
    """

    def __init__(self, url: str, *, patient: bool, switches: int) -> None:
        self._switches = switches
        self._url = url
        self._callers = [
            Caller(name, node, url, patient=patient)
            for name, node in {"a": NODE, "b": OTHER_NODE}.items()
        ]
        self._server = servers.connected(url)
        self._tables = [each.name for each in metadata.sorted_tables]
        [(name,)] = self._server.execute("SELECT current_database()")
        self._server.execute(f"ALTER DATABASE {name} SET deadlock_timeout = '10ms'")

    def close(self) -> None:
        """Let go of the database."""
        self._server.close()
        for each in self._callers:
            each.close()

    def set_up(self, scene: str) -> Scene:
        """Keep the rows of a scene, to begin with them again and again."""
        self._execute("DELETE FROM {0}")
        clock = ManualClock()
        with servers.opened(self._url, clock, has_tables=True) as store:
            made = SCENES[scene](store, clock)
        self._execute(
            "DROP TABLE IF EXISTS saved_{0}; CREATE TABLE saved_{0} AS TABLE {0}"
        )
        self._start = tuple(sorted(self._rows()))
        self._after: dict[tuple[str, str], Sequence[str]] = {}
        self._known = {*_ID.findall(str(self._rows())), *map(str, _GIVEN)}
        return made

    def orders(self, scene: Scene, first: str, second: str) -> Iterator[Tried]:
        """Try the orders of two calls, both of one after the other first."""
        calls = dict(zip(self._callers, (first, second), strict=True))
        a, b = (self._alone(scene, *each) for each in calls.items())
        ab, ba = self._try(scene, calls), self._try(scene, calls, [1])
        yield from (ab, ba)
        if (a == self._start and ba.came_of.rows == b) or (
            b == self._start and ab.came_of.rows == a
        ):
            return  # One of them has nothing to do there.
        picks = [*ab.picks]
        while True:
            while picks and picks[-1] == 1:
                picks.pop()
            if not picks:
                return
            picks[-1] = 1
            tried = self._try(scene, calls, picks)
            picks = [*tried.picks]
            yield tried

    def _alone(self, scene: Scene, caller: Caller, call: str) -> Sequence[str]:
        """The rows after one call alone."""
        key = caller.name, call
        if key not in self._after:
            self._after[key] = self._try(scene, {caller: call}).came_of.rows
        return self._after[key]

    def _try(
        self, scene: Scene, calls: Mapping[Caller, str], picks: Sequence[int] = ()
    ) -> Tried:
        self._execute("DELETE FROM {0}; INSERT INTO {0} TABLE saved_{0}")
        made = {
            each: partial(CALLS[call], Call(each.store(scene.clock), scene, each.node))
            for each, call in calls.items()
        }
        for caller, call in made.items():
            caller.begin(call)
        steps, picked = self._let_go_on([*calls], picks)
        answers = [
            _with_the_rest(each, calls[each], made[each])
            for each in self._callers
            if each in calls
        ]
        found = [tuple(sorted(map(self._named, each))) for each in answers]
        rows = tuple(sorted(map(self._named, self._rows())))
        return Tried(picked, steps, Outcomes(tuple(found), rows))

    def _let_go_on(
        self, callers: Sequence[Caller], picks: Sequence[int]
    ) -> tuple[Sequence[str], Sequence[int]]:
        """Let one make its steps, until it waits, or by ``picks`` the other one does.

        Returns:
            The steps, and of each choice there was: 0 for who went on, 1 for the other.
        """
        steps: list[str] = []
        picked: list[int] = []
        goes = callers[0]
        while any(each.answered is None for each in callers):
            for each in callers:
                each.settle(self._server)
            ready = [each for each in callers if each.at]
            if not ready:
                # Each waits for the other: the server ends one of them.
                continue
            if goes not in ready:
                [goes] = ready
            elif len(ready) == 2 and sum(picked[1:]) < self._switches:
                picked.append(picks[len(picked)] if len(picked) < len(picks) else 0)
                if picked[-1] == 1:
                    [goes] = [each for each in ready if each is not goes]
            steps.append(f"{goes.name}  {goes.at}")
            goes.go_on()
        return steps, picked

    def _named(self, text: str) -> str:
        """The text without ids that were made up on the way."""
        return _ID.sub(lambda id: id[0] if id[0] in self._known else "new", text)

    def _rows(self) -> Sequence[str]:
        found = " UNION ALL ".join(
            f"SELECT '{each}' || t FROM {each} AS t" for each in self._tables
        )
        return [row for (row,) in self._server.execute(found.encode())]

    def _execute(self, script: str) -> None:
        of_each = "; ".join(script.format(each) for each in self._tables)
        self._server.execute(f"BEGIN; {of_each}; COMMIT".encode())


_TABLES = re.compile(r"task_[a-z]+")
_GIVEN = [NODE, OTHER_NODE, *(UUID(int=each) for each in (9, 101, 102))]


def _with_the_rest(
    caller: Caller, call: str, repeat: Callable[[], object]
) -> Sequence[str]:
    """Its answer, with what is answered when nobody else locks anything any more."""
    assert caller.answered is not None
    answered = [*caller.answered]
    if call in SCANS or caller.is_busy:
        try:
            answered += _parts(repeat())
        except GoSchedulerError as error:
            answered.append(type(error).__name__)
    return answered


# All of them.


class Finding(NamedTuple):
    """Two calls of which some orders come to what neither of both after the other does.

    Attributes:
        calls: The scene, and both.
        tried: How many orders.
        wrong: Those that came to something else, the one with the fewest steps first.
        serial: What comes of one after the other, or between its parts.
    """

    calls: tuple[str, str, str]
    tried: int
    wrong: Sequence[Tried]
    serial: Sequence[Outcomes]

    def __str__(self) -> str:
        """One of the orders, and how it differs from the nearer one."""
        scene, first, second = self.calls
        lines = [f"{scene}: {first} | {second}: {len(self.wrong)} of {self.tried}"]
        for step in self.wrong[0].steps:
            tables = dict.fromkeys(_TABLES.findall(step))
            lines.append(f"    {step[:10]:10} {' '.join(tables)}")
        found = _lines(self.wrong[0].came_of)
        near = min(map(_lines, self.serial), key=lambda each: len(each ^ found))
        lines += [f"  - {each}" for each in sorted(near - found)]
        lines += [f"  + {each}" for each in sorted(found - near)]
        return "\n".join(lines)


def _lines(of: Outcomes) -> set[str]:
    answers = {f"{name}: {each}" for name, each in zip("ab", of.answers, strict=True)}
    return answers | {*of.rows}


def compare(orders: Interleavings, made: Scene, calls: tuple[str, str, str]) -> Finding:
    """Try all orders of two calls, and find those that differ."""
    tried = list(orders.orders(made, *calls[1:]))
    in_parts = {
        name for name, call in zip("ab", calls[1:], strict=True) if call in IN_PARTS
    }
    serial = [each.came_of for each in tried if _is_serial(each.steps, in_parts)]
    wrong = [each for each in tried if each.came_of not in serial]
    return Finding(calls, len(tried), sorted(wrong, key=lambda e: len(e.steps)), serial)


def _is_serial(steps: Sequence[str], in_parts: Set[str]) -> bool:
    """Whether each call goes on until it has ended, or a part of it has."""
    names = [each[0] for each in steps]
    for number, (step, following) in enumerate(pairwise(names), start=1):
        has_ended = step not in names[number:]
        ends_part = step in in_parts and steps[number - 1].endswith(COMMIT)
        if step != following and not has_ended and not ends_part:
            return False
    return True


def main() -> None:
    """Try all orders of all pairs, or of those that are named."""
    parser = argparse.ArgumentParser(prog="python -m tests.interleavings")
    parser.add_argument("--scene", choices=SCENES, action="append")
    parser.add_argument("--call", choices=CALLS, action="append")
    parser.add_argument("--switches", type=int, default=3)
    parser.add_argument("--impatient", action="store_true")
    chosen = parser.parse_args()
    with servers.postgresql_server() as server, servers.fresh_database(server) as url:
        with servers.opened(url):
            pass
        orders = Interleavings(
            url, patient=not chosen.impatient, switches=chosen.switches
        )
        count = 0
        wanted = {*(chosen.call or CALLS)}
        for scene in chosen.scene or SCENES:
            made = orders.set_up(scene)
            for name, first, second in pairs():
                if name == scene and {first, second} <= wanted:
                    found = compare(orders, made, (scene, first, second))
                    count += found.tried
                    told = f"{count:6} {' | '.join(found.calls)}"
                    sys.stdout.write(f"{found if found.wrong else told}\n")
                    sys.stdout.flush()
        orders.close()


if __name__ == "__main__":
    main()
