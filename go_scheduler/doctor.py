"""Finds what is wrong with a store or a schedule, and what to do; it only reads."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property, partial
from importlib import metadata
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from go_scheduler.checks import check_made, check_positive, check_type
from go_scheduler.client.views import backlog_of, node_info
from go_scheduler.clock import ZERO, Clock, StoreClock, SystemClock
from go_scheduler.errors import ConfigurationError, StoreError
from go_scheduler.formatting import duration_text, shown, summary
from go_scheduler.handlers.registry import HandlerRegistry
from go_scheduler.models import OPEN, DefinitionState, Outcome, State
from go_scheduler.models.counts import COUNTED, Counted
from go_scheduler.stores.base import CONTACTS_KEPT, ENDED_LOOKED_AT, LOOKED_AT, Store
from go_scheduler.stores.filters import CLAIMABLE, CLAIMED, Filter, Order, all_items
from go_scheduler.stores.findings import (
    OF_STORES,
    SCHEMA_MISSING,
    UNREACHABLE,
    Finding,
    Kind,
    Severity,
    answers,
    well,
)
from go_scheduler.triggers.base import UnknownTrigger, dump_trigger
from go_scheduler.triggers.simple import OnDemandTrigger
from go_scheduler.version import __version__
from go_scheduler.why import Obstacle, obstacle_of, of_name

if TYPE_CHECKING:
    from go_scheduler.models import NodeInfo, TaskDefinition, TaskInstance

__all__ = ["Finding", "Report", "Severity", "diagnose"]

_T = TypeVar("_T")
_PAGE = 1000


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts of a schedule. Each is read when it is first needed.

    Args:
        store: The store; it is only read.
        names: The names that have a handler; None: unknown.
        most: The most definitions to read.
        expire_after: The default of definitions without one.
    """

    store: Store
    names: Collection[str] | None
    most: int
    expire_after: timedelta

    @cached_property
    def now(self) -> datetime:
        """The time of the store, at the first use."""
        return self.store.now()

    @cached_property
    def nodes(self) -> Sequence[NodeInfo]:
        """The nodes that are alive and take work."""
        contacts = self.store.list_contacts(within=CONTACTS_KEPT)
        found = [node_info(each, self.now) for each in contacts]
        return [each for each in found if each.takes_on]

    @cached_property
    def definitions(self) -> Sequence[TaskDefinition]:
        """The first definitions, by id."""
        limit = min(_PAGE, self.most)
        read = partial(self.store.select_definitions, limit=limit)
        return list(islice(all_items(read), self.most))

    @property
    def active(self) -> Sequence[TaskDefinition]:
        """The definitions that are to run."""
        return [
            each for each in self.definitions if each.state is DefinitionState.ACTIVE
        ]

    @cached_property
    def waiting(self) -> Sequence[TaskInstance]:
        """The first instances that wait for a node."""
        return self.store.select(
            CLAIMABLE, order=Order.DUE, limit=_PAGE, scan_limit=LOOKED_AT
        )


_NOTICE, _WARNING, _ERROR = Severity.NOTICE, Severity.WARNING, Severity.ERROR

CLOCK_OFFSET = Kind(
    "clock-offset", _WARNING, "Have this machine and the database keep time by NTP."
)
NO_NODES = Kind(
    "no-nodes",
    _WARNING,
    "Start one: a program that calls run(), `go_scheduler worker` or `go_scheduler"
    " serve`.",
)
VERSIONS_DIFFER = Kind(
    "versions-differ", _NOTICE, "Finish the deploy, so that all are of one version."
)
QUEUE_UNSERVED = Kind(
    "queue-unserved",
    _ERROR,
    "Name the queue in the queues= of a scheduler, have a worker ask the server for it,"
    " or mind its spelling.",
)
NAME_UNKNOWN = Kind(
    "name-unknown",
    _ERROR,
    "Register a handler by this name where the queue is served, or mind its spelling.",
)
NAME_UNREGISTERED = Kind(
    "name-unregistered",
    _WARNING,
    "Register a handler by this name, or delete the definition.",
)
NAMELESS = Kind(
    "nameless",
    _ERROR,
    "Give it the name of its handler, by `go_scheduler add NAME --id ID` and what it"
    " has besides, or serve its queue by a scheduler with one handler for all.",
)
NAMELESS_UNREGISTERED = Kind(
    "nameless-unregistered",
    _WARNING,
    "Give it the name of its handler, by `go_scheduler add NAME --id ID` and what it"
    " has besides, or delete it.",
)
TRIGGER_UNKNOWN = Kind(
    "trigger-unknown",
    _WARNING,
    "Import the class or the calendar where it runs; and here, by --handlers.",
)
OVERDUE = Kind(
    "overdue",
    _ERROR,
    "See that a node runs, and what its log and health() say of the trigger.",
)
NEVER_AGAIN = Kind(
    "never-again",
    _NOTICE,
    "Nothing, if that was its end; else give it a trigger that goes on.",
)
PAUSED = Kind("paused", _NOTICE, "Resume it, if the reason is gone.")
NOT_ALL_READ = Kind("not-all-read", _NOTICE, "Ask for more by --most, if it matters.")
BACKLOG = Kind(
    "backlog",
    _WARNING,
    "Start more nodes that serve the queue, or raise max_workers; `go_scheduler why`"
    " says what one waits for.",
)
MISFIRED = Kind(
    "misfired",
    _WARNING,
    "See the reason; CatchUp(mode='all') runs all that is missed, and run_now() one.",
)
SKIPPED = Kind(
    "skipped", _NOTICE, "Nothing, if its overlap, its pause or its edit was meant so."
)
STUCK_RUN = Kind(
    "stuck-run",
    _WARNING,
    "See what its handler waits for; cancel() asks it to stop.",
)
LAPSED_CLAIM = Kind(
    "lapsed-claim",
    _ERROR,
    "Start a node that serves its queue: it takes over what a dead one had.",
)
FAILING = Kind(
    "failing",
    _WARNING,
    "Mend what the error says, and then run those that failed once more.",
)

_OWN = [each for each in vars().values() if isinstance(each, Kind)]
KINDS = tuple(dict.fromkeys([*OF_STORES, *_OWN]))
"""All kinds of findings."""


_DRIVERS = ("SQLAlchemy", "psycopg", "sqlalchemy-cockroachdb")
LARGE_OFFSET = timedelta(seconds=1)
"""Clocks that differ by more are reported."""


def versions() -> Iterator[Finding]:
    """The versions of the package, of Python and of the drivers."""
    drivers = ", ".join(f"{each} {metadata.version(each)}" for each in _DRIVERS)
    python = ".".join(map(str, sys.version_info[:3]))
    yield well("versions", f"go_scheduler {__version__}, Python {python}, {drivers}")


def clocks(store: Store, clock: Clock) -> Iterator[Finding]:
    """How far the clock of the store is from the clock of this machine."""
    copy = StoreClock(clock, store.now)
    copy.refresh()
    round_trip = copy.round_trip
    offset = copy.now() + round_trip / 2 - clock.now()
    yield well("connection", f"it answers within {duration_text(round_trip)}")
    ahead = "ahead of" if offset > ZERO else "behind"
    seen = f"the store's clock is {duration_text(abs(offset))} {ahead} this machine's"
    if abs(offset) > LARGE_OFFSET + round_trip / 2:
        yield CLOCK_OFFSET.found(
            f"{seen}, give or take {duration_text(round_trip / 2)}"
        )
    else:
        yield well("clock", seen)


SHOWN = 5
"""A finding names no more than so many."""
LATE = timedelta(minutes=1)
"""What is due for longer is reported."""


def nodes(facts: Facts) -> Iterator[Finding]:
    """Which nodes are alive, and whether they serve all definitions."""
    living = facts.nodes
    if not living:
        yield NO_NODES.found("no node that takes on work was seen of late")
        return
    yield well("nodes", f"alive, and take on work: {len(living)}")
    versions = sorted({str(each.version) for each in living})
    if len(versions) > 1:
        yield VERSIONS_DIFFER.found(f"nodes are of version {', '.join(versions)}")

    def meets(obstacle: Obstacle, of: TaskDefinition) -> bool:
        return obstacle_of(living, of.queue, of.name) is obstacle

    unserved = [each for each in facts.active if meets(Obstacle.QUEUE_UNSERVED, each)]
    for group in _most(unserved, lambda each: each.queue):
        yield QUEUE_UNSERVED.found(
            f"no living node serves queue {group[0].queue!r}, in which"
            f" {_so_many(group)} {'runs' if len(group) == 1 else 'run'}"
        )
    if all(each.queues is not None for each in living):
        served = {queue for each in living for queue in each.queues or ()}
        due = set(facts.store.list_due_queues(apart_from=served))
        for queue in due.difference(each.queue for each in unserved):
            yield QUEUE_UNSERVED.found(
                f"no living node serves queue {queue!r}, in which something is due"
            )
    lacks = partial(meets, Obstacle.NAME_UNKNOWN)
    for of, number in _without_handler(facts, lacks, by_queue=True):
        kind = NAMELESS if of.name is None else NAME_UNKNOWN
        yield kind.found(
            f"no living node that serves queue {of.queue!r} has a handler for"
            f" {of_name(of.name)}{number}"
        )


def names(facts: Facts) -> Iterator[Finding]:
    """Whether there is a handler for each definition."""
    known = facts.names
    if known is None:
        return
    lacking = list(
        _without_handler(facts, lambda each: each.name not in known, by_queue=False)
    )
    for of, number in lacking:
        kind = NAMELESS_UNREGISTERED if of.name is None else NAME_UNREGISTERED
        yield kind.found(f"the handlers have none for {of_name(of.name)}{number}")
    if not lacking:
        yield well("handlers", "there is one for each active definition")


def _without_handler(
    facts: Facts, lacks: Callable[[TaskDefinition], bool], *, by_queue: bool
) -> Iterator[tuple[TaskDefinition, str]]:
    """A definition of each name that lacks a handler, and how many there are.

    Args:
        facts: Those of the schedule.
        lacks: Whether there is no handler for a definition.
        by_queue: Whether a name counts in each queue by itself.
    """

    def key(of: TaskDefinition) -> object:
        return of.name, by_queue and of.queue

    lacking = [each for each in facts.active if lacks(each)]
    for group in _most(lacking, key):
        number = f", of which there are {_so_many(group)}"
        yield group[0], f": {_listed(group)}" if group[0].name is None else number
    # A one-off that has fired is no longer an active definition.
    found = {key(each) for each in lacking}
    waiting = [each.definition for each in facts.waiting if lacks(each.definition)]
    for group in _most([each for each in waiting if key(each) not in found], key):
        number = f"{len(group):,} instances wait"
        if len(group) == 1:
            number = "1 instance waits"
        is_named = by_queue and group[0].name is not None
        yield group[0], f", {number}" if is_named else f": {number}"


def _most(found: Iterable[_T], key: Callable[[_T], object]) -> Sequence[Sequence[_T]]:
    """The largest groups of what has the same key, the largest first."""
    groups: defaultdict[object, list[_T]] = defaultdict(list)
    for each in found:
        groups[key(each)].append(each)
    return sorted(groups.values(), key=len, reverse=True)[:SHOWN]


def definitions(facts: Facts) -> Iterator[Finding]:
    """Which definitions are overdue, paused, or never fire again."""
    found, active, now = facts.definitions, facts.active, facts.now
    if len(found) >= facts.most:
        yield NOT_ALL_READ.found(
            f"of the definitions the first {facts.most:,} were read"
        )
    yield well("definitions", f"{len(found):,} were read, {len(active):,} are active")
    unknown = [each for each in active if isinstance(each.trigger, UnknownTrigger)]
    if unknown:
        kinds = sorted({dump_trigger(each.trigger)[0] for each in unknown})
        yield TRIGGER_UNKNOWN.found(
            f"the trigger of {_listed(unknown)} is unknown here, of the kind"
            f" {', '.join(map(repr, kinds))}"
        )
    late = [each for each in active if now - (each.next_fire_time or now) > LATE]
    if late:
        oldest = max(now - (each.next_fire_time or now) for each in late)
        yield OVERDUE.found(
            f"{_listed(late)} should have fired, the first {duration_text(oldest)} ago,"
            " and have not"
        )
    over = [each for each in found if _is_over(each, facts)]
    if over:
        yield NEVER_AGAIN.found(f"{_listed(over)} never fire again")
    paused = [each for each in found if each.state is DefinitionState.PAUSED]
    if paused:
        yield PAUSED.found(f"{_listed(paused)} are paused")


def _is_over(definition: TaskDefinition, facts: Facts) -> bool:
    """Whether a recurring definition has fired for the last time."""
    trigger = definition.trigger
    if isinstance(trigger, OnDemandTrigger | UnknownTrigger) or not trigger.recurring:
        return False
    if definition.state is DefinitionState.COMPLETED:
        return True
    if definition.next_fire_time is not None or definition.paused:
        return False
    # It fires after the end of a run, so an open instance will make it fire again.
    is_open = Filter(definition_id=definition.id, states=OPEN)
    return not facts.store.select(is_open, limit=1)


def _so_many(found: Sequence[TaskDefinition]) -> str:
    return "1 definition" if len(found) == 1 else f"{len(found):,} definitions"


def _listed(definitions: Sequence[TaskDefinition]) -> str:
    """Their number, and the names of the first."""
    named = ", ".join(map(_label, definitions[:SHOWN]))
    more = ", …" if len(definitions) > SHOWN else ""
    return f"{_so_many(definitions)} ({named}{more})"


def _label(definition: TaskDefinition) -> str:
    return " ".join(filter(None, (definition.label, str(definition.id))))


_MOST = 1000
_DAY = timedelta(days=1)
_MARGIN = timedelta(minutes=1)
# Each stretch looks at ten thousand ended instances at most.
_PAGES = 10
_LATE = ("late by ", "missed by ")


def backlog(facts: Facts) -> Iterator[Finding]:
    """Which instances are due and not claimed."""
    found = backlog_of(facts.store, COUNTED)
    for each in found:
        age = facts.now - each.oldest
        if age > LATE:
            yield BACKLOG.found(
                f"{each.due} are due in queue {each.queue!r}, the oldest for"
                f" {duration_text(age)}"
            )
    number = sum(each.due.count for each in found)
    more = any(each.due.more for each in found)
    yield well("waiting", f"{Counted(count=number, more=more)} are due")


def running(facts: Facts) -> Iterator[Finding]:
    """Which runs take too long, or belong to a dead node."""
    found = facts.store.select(
        CLAIMED, order=Order.EXPIRY, limit=_MOST, scan_limit=LOOKED_AT
    )
    lapsed, stuck = [], []
    for each in found:
        longest = each.definition.expire_after or facts.expire_after
        if each.expires_at is not None and facts.now - each.expires_at > _MARGIN:
            lapsed.append(each)
        # What is on a bus may wait there longer.
        elif each.start_by is None and _run_for(each, facts) > longest + _MARGIN:
            stuck.append(each)
    for each in lapsed[:SHOWN]:
        yield LAPSED_CLAIM.found(
            f"instance {each.id} of {_label(each.definition)} is node"
            f" {each.claimed_by}'s, whose claim has lapsed, and nobody has taken it"
            " over"
        )
    for each in stuck[:SHOWN]:
        yield STUCK_RUN.found(
            f"instance {each.id} of {_label(each.definition)} has run for"
            f" {duration_text(_run_for(each, facts))}, past its expire_after",
            f"go_scheduler cancel {each.id}",
        )
    runs = Counted.up_to(_MOST - 1, len(found))
    yield well("running", f"{runs} run, or are about to")


def _run_for(instance: TaskInstance, facts: Facts) -> timedelta:
    return facts.now - (instance.started_at or facts.now)


def failed(facts: Facts) -> Iterator[Finding]:
    """Which instances failed within the last day, by definition."""
    found = _of_last_day(facts, Outcome.FAILED)
    for instances in _most(found, lambda each: each.definition.id):
        last = instances[0]
        yield FAILING.found(
            f"{len(instances):,} of {_label(last.definition)} failed within a day, the"
            f" last by: {summary(last.error or 'no error')}",
            f"go_scheduler retry --definition {last.definition.id}",
        )
    yield well("failed", f"{len(found):,} failed within a day")


def skipped(facts: Facts) -> Iterator[Finding]:
    """Which fire times were skipped within the last day, by definition."""
    count = 0
    found = _of_last_day(facts, Outcome.SKIPPED)
    for instances in _most(found, lambda each: each.definition.id):
        definition = instances[0].definition
        records = [each.skipped for each in instances if each.skipped is not None]
        number = sum(each.count for each in records)
        count += number
        reason = records[0].reason if records else "nobody knows"
        # Else a policy, an edit or a pause has meant it so.
        is_late = reason.startswith(_LATE) and "; paused " not in reason
        kind = MISFIRED if is_late else SKIPPED
        yield kind.found(
            f"{number:,} fire times of {_label(definition)} were skipped within a day,"
            f" the last as {reason}",
            f"go_scheduler why {definition.id}",
        )
    yield well("missed", f"{count:,} fire times were skipped within a day")


def _of_last_day(facts: Facts, outcome: Outcome) -> Sequence[TaskInstance]:
    """The latest instances that ended with an outcome within a day."""
    since = facts.now - _DAY
    found: list[TaskInstance] = []
    position = None
    for _ in range(_PAGES):
        page = facts.store.select(
            Filter(states=[State(outcome.value)]),
            order=Order.END,
            descending=True,
            after=position,
            limit=_MOST,
            scan_limit=ENDED_LOOKED_AT,
        )
        # A row that someone has changed by hand may lack its end.
        ends = ((each, each.completed_at or each.execute_at) for each in page)
        found += [each for each, end in ends if end >= since]
        position = page.next
        if position is None or len(found) >= _MOST or (position.at or since) < since:
            break
    return found


_EXPIRE_AFTER = timedelta(minutes=5)
_QUESTIONS: dict[str, Callable[[Facts], Iterator[Finding]]] = {
    "nodes": nodes,
    "handlers": names,
    "definitions": definitions,
    "what waits": backlog,
    "what runs": running,
    "what failed": failed,
    "what was skipped": skipped,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The answers to all questions.

    Attributes:
        findings: In the order of the questions.
    """

    findings: tuple[Finding, ...]

    @property
    def worst(self) -> Severity:
        """The highest severity."""
        return max(
            (each.severity for each in self.findings), key=lambda each: each.rank
        )

    @property
    def reached(self) -> bool:
        """Whether the store could be reached."""
        return all(each.name != UNREACHABLE.name for each in self.findings)


def diagnose(
    store: Store,
    *,
    handlers: HandlerRegistry | Collection[str] | None = None,
    most: int = 10_000,
    expire_after: timedelta = _EXPIRE_AFTER,
    clock: Clock | None = None,
) -> Report:
    """Examine a store and its schedule. It writes nothing, and changes no schema.

    A user of the database with the right to read suffices. Whatever that user may not
    see, or takes too long, becomes a finding. Each question takes seconds at most.

    ```python
    report = diagnose(open_store("sqlite:///jobs.db"))
    for finding in report.findings:
        print(finding.severity, finding.name, finding.seen, finding.remedy)
    ```

    Args:
        store: The store; it need not be initialized.
        handlers: The handlers of the schedulers, or their names; None: unknown.
        most: The most definitions to read.
        expire_after: The default of the schedulers, for definitions without one.
        clock: The clock of this machine, for tests.

    Returns:
        All findings; if the store cannot be reached, only that.

    Raises:
        ConfigurationError: An argument is wrong.
    """
    opener = "open_store(), in go_scheduler.stores"
    check_made("store", store, Store, opener=opener)
    check_type("most", most, int)
    if most < 1:
        raise ConfigurationError(f"most must be at least 1, not {shown(most)}")
    check_positive("expire_after", expire_after)
    if isinstance(handlers, HandlerRegistry):
        handlers = handlers.names
    if isinstance(handlers, str) or not isinstance(handlers, Collection | None):
        raise ConfigurationError(
            "handlers must be a HandlerRegistry, or a collection of names, not"
            f" {shown(handlers)}"
        )
    facts = Facts(store=store, names=handlers, most=most, expire_after=expire_after)
    return Report(findings=tuple(_findings(store, facts, clock or SystemClock())))


def _findings(store: Store, facts: Facts, clock: Clock) -> Iterator[Finding]:
    yield from versions()
    try:
        examined = store.examine()
        yield from clocks(store, clock)
    except StoreError as error:
        yield UNREACHABLE.found(str(error))
        return
    yield from examined
    if any(each.name == SCHEMA_MISSING.name for each in examined):
        return
    yield from answers(_QUESTIONS, lambda question: question(facts))
