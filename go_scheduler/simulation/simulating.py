"""Simulates the fire times, the locks and the load of definitions, without a store."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from go_scheduler.checks import check_at_least, check_positive, check_type
from go_scheduler.clock import ZERO
from go_scheduler.errors import ConfigurationError
from go_scheduler.firing.latest import jitter_of
from go_scheduler.formatting import duration_text, shown, utc_text
from go_scheduler.models import DefinitionState, State, TaskDefinition, TaskInstance
from go_scheduler.stores.rules import check_each_once, fate_of, overlap_of, slot_of
from go_scheduler.triggers.base import checked_fire_time, next_fire_time_of, utc
from go_scheduler.triggers.local_time import zone_changes, zone_of
from go_scheduler.triggers.previews import ask, effect_of
from go_scheduler.triggers.simple import OnDemandTrigger
from go_scheduler.triggers.times import MICROSECOND

if TYPE_CHECKING:
    from go_scheduler.triggers.base import Trigger


def fire_times(
    definition: TaskDefinition, start: datetime, end: datetime, duration: timedelta
) -> Iterator[datetime]:
    """The fire times of a definition, in order.

    A definition that was read from a store goes on from its next fire time. Any other
    begins as if it were scheduled at the start. A paused or ended one has none.

    Args:
        definition: The definition. Errors of its trigger are raised; also if the
            trigger of a user hangs.
        start: The first instant.
        end: The end, exclusive.
        duration: How long its runs last, if its trigger waits for their end.
    """
    times = _fire_times(definition, start, end, duration)
    while (at := ask(definition.trigger, lambda: next(times, None))) is not None:
        yield at


def _fire_times(
    definition: TaskDefinition, start: datetime, end: datetime, duration: timedelta
) -> Iterator[datetime]:
    if definition.state is not DefinitionState.ACTIVE:
        return
    at = _first(definition, start)
    trigger = definition.trigger.anchored(start)
    while at is not None and at < end:
        yield at
        after = at
        if trigger.waits:
            # The next run begins later, however short this one is.
            after = max(at + jitter_of(definition, at) + duration, at + MICROSECOND)
        at = next_fire_time_of(trigger, after)


def _first(definition: TaskDefinition, start: datetime) -> datetime | None:
    trigger = definition.trigger
    if definition.revision is None:
        first = trigger.anchored(start).first_fire_time(start)
        first = None if first is None else checked_fire_time(trigger, first)
    else:
        first = definition.next_fire_time
    if first is None or first >= start:
        return first
    # Fire times missed before the start run once at most, when the first node looks.
    if trigger.waits or not trigger.recurring:
        return start
    return next_fire_time_of(trigger, start - MICROSECOND)


MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The largest number of runs at one time.

    Attributes:
        most: That number.
        at: When it is reached first; None: nothing runs.
        short: Number of minutes in which more run than there are workers.
    """

    most: int
    at: datetime | None
    short: int


def load_of(
    spans: Iterable[tuple[datetime, datetime]], workers: int | None = None
) -> Load:
    """The load of runs, each from its start to its end.

    Args:
        spans: Start and end of each. A run does not overlap one that begins at its
            end, unless it has no length.
        workers: How many can run at one time; None: any number.
    """
    events: list[tuple[datetime, int]] = []
    for start, end in spans:
        events.append((start, 1))
        events.append((max(end, start + timedelta.resolution), -1))
    # At one instant, runs end before others begin.
    events.sort()
    running = most = 0
    at = since = None
    short: set[datetime] = set()
    for instant, change in events:
        if workers is not None and running > workers and since is not None:
            short.update(_minutes(since, instant))
        running += change
        since = instant
        if running > most:
            most, at = running, instant
    return Load(most=most, at=at, short=len(short))


def minute_of(instant: datetime) -> datetime:
    """The minute of an instant."""
    return instant.replace(second=0, microsecond=0)


def _minutes(start: datetime, end: datetime) -> Iterable[datetime]:
    minute = minute_of(start)
    while minute < end:
        yield minute
        minute += MINUTE


@dataclass(slots=True, kw_only=True, eq=False)
class Run:
    """One run of a definition.

    Attributes:
        id: An id for the simulation alone.
        of: The index of its definition.
        fire_time: The time of its trigger.
        at: When it is due.
        length: How long it runs.
        start: When it begins; None: it is skipped, or has not begun.
    """

    id: UUID
    of: int
    fire_time: datetime
    at: datetime
    length: timedelta
    start: datetime | None = None

    @property
    def end(self) -> datetime:
        """When it ends."""
        return (self.start or self.at) + self.length


@dataclass(slots=True)
class _Slot:
    """A lock: one run holds it, the others wait in their order."""

    holder: Run | None = None
    waiting: deque[Run] = field(default_factory=deque)

    def go_on(self, until: datetime | None) -> None:
        """Start the runs whose turn comes up to an instant; None: all of them."""
        while self.holder is not None and (until is None or self.holder.end <= until):
            ended = self.holder.end
            self.holder = self.waiting.popleft() if self.waiting else None
            if self.holder is not None:
                self.holder.start = max(ended, self.holder.at)


def take_turns(runs: Iterable[Run], definitions: Sequence[TaskDefinition]) -> None:
    """Set the start of each run, or leave it unset if it is skipped.

    A run that is replaced by another one stops at once.

    Args:
        runs: In the order in which they are due.
        definitions: Their definitions.
    """
    names = [slot_of(each, fired=True) for each in definitions]
    slots: dict[str, _Slot] = {}
    for run in runs:
        name = names[run.of]
        if name is None:
            run.start = run.at
            continue
        slot = slots.setdefault(name, _Slot())
        slot.go_on(run.at)
        if slot.holder is None:
            slot.holder, run.start = run, run.at
        else:
            _come_second(run, slot, slot.holder, definitions[run.of])
    for slot in slots.values():
        slot.go_on(None)


def _come_second(
    run: Run, slot: _Slot, holder: Run, definition: TaskDefinition
) -> None:
    """Decide on a run that is due while another one holds the lock."""
    overlap = overlap_of(definition, fired=True)
    if overlap is None:
        slot.waiting.append(run)
        return
    waiting = [each.id for each in slot.waiting if each.of == run.of]
    fate = fate_of(overlap, runs=holder.of == run.of, waiting=waiting)
    if fate.reason is not None:
        return
    slot.waiting = deque(each for each in slot.waiting if each.id not in fate.replaced)
    slot.waiting.append(run)
    if fate.stops:
        holder.length = run.at - (holder.start or run.at)
        slot.go_on(run.at)


EXPIRE_AFTER = timedelta(minutes=5)
"""The default of schedulers, for definitions without one."""
MANY_AT_ONCE = 100
"""If more runs begin at one instant, there is a warning."""


def beware_of(simulated: Simulated, refused: str | None) -> Iterator[str]:
    """The warnings about a definition.

    Args:
        simulated: The simulation of a definition.
        refused: What its trigger raised; None: nothing.
    """
    definition = simulated.definition
    if refused is not None:
        yield f"its trigger cannot be asked here: {refused}"
    elif definition.state is not DefinitionState.ACTIVE:
        yield f"it is {definition.state.value}"
    elif not simulated.fires and not isinstance(definition.trigger, OnDemandTrigger):
        yield "it does not fire within this time"
    expire_after = definition.expire_after or EXPIRE_AFTER
    if simulated.duration > expire_after:
        yield (
            f"a run of {duration_text(simulated.duration)} outlives its expire_after of"
            f" {duration_text(expire_after)}: it is presumed hung, and runs again"
        )
    timeout = definition.timeout
    if timeout is not None and simulated.duration > timeout:
        yield f"a run is ended by its timeout of {duration_text(timeout)}"
    if simulated.most_at_once > 1:
        yield f"up to {simulated.most_at_once} of it run at once"
    if simulated.skipped:
        overlap = definition.overlap.value
        yield f"{simulated.skipped:,} are skipped, by its overlap: {overlap}"
    if simulated.waited:
        yield (
            f"{simulated.waited:,} wait for another one to end, for up to"
            f" {duration_text(simulated.longest_wait)}"
        )


def beware_of_all(
    starts: Sequence[datetime], load: Load, workers: int | None
) -> Iterator[str]:
    """The warnings about all runs together.

    Args:
        starts: When they begin.
        load: Their load.
        workers: How many can run at one time; None: any number.
    """
    at, number = max(Counter(starts).items(), key=itemgetter(1), default=(None, 0))
    if at is not None and number > MANY_AT_ONCE:
        yield f"{number:,} begin at {utc_text(at)}: a jitter would spread them"
    if load.short:
        yield (
            f"in {load.short:,} minutes more than {workers:,} would run at once, up to"
            f" {load.most:,}: some begin late"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The effect of a change of the clocks.

    Attributes:
        at: When, in UTC.
        text: What happens, for a person to read.
    """

    at: datetime
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """The result for one definition.

    Attributes:
        definition: The definition.
        duration: The assumed duration of each run.
        starts: When its runs would begin, the earliest first, in UTC.
        fires: How often it would fire.
        skipped: How many runs its ``overlap`` would skip.
        waited: How many runs would wait for another one to end.
        longest_wait: The longest wait.
        most_at_once: The most runs at one time.
        effects: The effects of changes of the clocks on its fire times.
        warnings: What may be a mistake, a sentence each.
    """

    definition: TaskDefinition
    duration: timedelta
    starts: tuple[datetime, ...]
    fires: int
    skipped: int
    waited: int
    longest_wait: timedelta
    most_at_once: int
    effects: tuple[Effect, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """The result for all definitions together.

    Attributes:
        start: The start of the simulated time.
        end: Its end.
        definitions: The result of each, in the order given.
        minutes: How many runs would begin in each minute in which any does, earliest
            first.
        most_at_once: The most runs at one time.
        most_at_once_at: When that is reached first; None: nothing runs.
        short_minutes: The number of minutes with more runs at one time than workers.
        changes: The changes of the clocks in the zones of these definitions.
        warnings: What may be a mistake of all together, a sentence each.
    """

    start: datetime
    end: datetime
    definitions: tuple[Simulated, ...]
    minutes: Mapping[datetime, int]
    most_at_once: int
    most_at_once_at: datetime | None
    short_minutes: int
    changes: tuple[Effect, ...]
    warnings: tuple[str, ...]

    @property
    def fires(self) -> int:
        """How often they would fire."""
        return sum(each.fires for each in self.definitions)

    @property
    def busiest(self) -> tuple[datetime, int] | None:
        """The minute in which most runs begin, and how many; None: none begins."""
        if not self.minutes:
            return None
        return max(self.minutes.items(), key=itemgetter(1))


MOST_ASKED = 1000
"""The history of no more definitions is read."""
_RUNS = 20


class ListsInstances(Protocol):
    """A client of a store, or of a server."""

    def list_instances(
        self,
        *,
        definition_id: UUID | None,
        state: State | str | None,
        newest_first: bool,
        limit: int,
    ) -> Sequence[TaskInstance]:
        """Read a page of instances."""


def durations_of(
    client: ListsInstances, definitions: Iterable[TaskDefinition]
) -> Mapping[UUID, timedelta]:
    """The median duration of the last twenty runs of each definition.

    Args:
        client: Reads the history.
        definitions: The history of the first thousand with a revision is read.

    Returns:
        The durations by id, for definitions with a completed run.
    """
    found: dict[UUID, timedelta] = {}
    known = [each for each in definitions if each.revision is not None]
    for each in known[:MOST_ASKED]:
        runs = client.list_instances(
            definition_id=each.id, state=State.COMPLETED, newest_first=True, limit=_RUNS
        )
        lengths = sorted(
            run.completed_at - run.started_at
            for run in runs
            if run.completed_at is not None and run.started_at is not None
        )
        if lengths:
            found[each.id] = max(lengths[len(lengths) // 2], ZERO)
    return found


MOST_FIRES = 200_000
"""The default limit of simulated fire times."""
LONGEST_SPAN = timedelta(days=366)
WEEK = timedelta(days=7)
# A change of the clocks may move local times within this distance.
_NEAR = timedelta(hours=26)


def simulate(
    definitions: Iterable[TaskDefinition],
    *,
    start: datetime,
    span: timedelta = WEEK,
    durations: timedelta | Mapping[UUID, timedelta] = ZERO,
    workers: int | None = None,
    most: int = MOST_FIRES,
) -> Simulation:
    """Simulate definitions from a start on. It runs nothing, and reads no store.

    Definitions that were read from a store go on from their next fire time. All others
    begin as if they were scheduled at the start. Every run is assumed to succeed.

    ```python
    simulation = simulate(definitions, start=datetime(2030, 1, 7, tzinfo=UTC))
    print(simulation.fires, simulation.busiest)
    ```

    Args:
        definitions: Each id once.
        start: An aware instant.
        span: The simulated time; at most 366 days.
        durations: How long each run lasts, or by the id of the definition, how long its
            runs last; others take no time. ``durations_of`` reads them from history.
        workers: How many runs all nodes together take at once; None: any number.
        most: The most fire times of all definitions together.

    Raises:
        ConfigurationError: An argument is wrong, or there are more fire times than
            ``most``.
    """
    given = checked(definitions)
    start = utc(start, name="start")
    check_positive("span", span)
    if span > LONGEST_SPAN:
        raise ConfigurationError(f"span must be at most 366 days, not {shown(span)}")
    for name, number in (("workers", workers), ("most", most)):
        if number is not None:
            check_type(name, number, int)
            check_number(name, number)
    try:
        end = start + span
    except OverflowError:
        raise ConfigurationError(f"start is too late: {shown(start)}") from None
    lengths = lengths_of(given, durations)
    runs, refused = _runs(given, lengths, start=start, end=end, most=most)
    take_turns(runs, given)
    zones = sorted({zone for each in given if (zone := zone_of(each.trigger))})
    changes = {zone: zone_changes(zone, start, end) for zone in zones}
    by_definition: list[list[Run]] = [[] for _ in given]
    for run in runs:
        by_definition[run.of].append(run)
    simulated = [
        _simulated(definition, by_definition[of], lengths[of], changes, refused.get(of))
        for of, definition in enumerate(given)
    ]
    starts = sorted(each.start for each in runs if each.start is not None)
    load = load_of(_spans(runs), workers)
    effects = [Effect(at=at, text=text) for each in zones for at, text in changes[each]]
    minutes = Counter(minute_of(each) for each in starts)
    return Simulation(
        start=start,
        end=end,
        definitions=tuple(simulated),
        minutes=dict(sorted(minutes.items())),
        most_at_once=load.most,
        most_at_once_at=load.at,
        short_minutes=load.short,
        changes=tuple(sorted(effects, key=attrgetter("at"))),
        warnings=tuple(beware_of_all(starts, load, workers)),
    )


def check_number(name: str, number: int) -> None:
    """Refuse a number below one."""
    if number < 1:
        raise ConfigurationError(f"{name} must be at least 1, not {shown(number)}")


def checked(definitions: Iterable[TaskDefinition]) -> Sequence[TaskDefinition]:
    """The definitions, if each is one and each id is there once."""
    given = list(definitions)
    for each in given:
        check_type("a definition", each, TaskDefinition)
    check_each_once(given)
    return given


def lengths_of(
    definitions: Sequence[TaskDefinition], durations: object
) -> Sequence[timedelta]:
    """How long the runs of each last."""
    if isinstance(durations, timedelta):
        durations = {each.id: durations for each in definitions}
    check_type("durations", durations, Mapping)
    assert isinstance(durations, Mapping)
    for each in durations.values():
        check_at_least("a duration", each, ZERO)
    return [durations.get(each.id, ZERO) for each in definitions]


def _runs(
    definitions: Sequence[TaskDefinition],
    lengths: Sequence[timedelta],
    *,
    start: datetime,
    end: datetime,
    most: int,
) -> tuple[list[Run], Mapping[int, str]]:
    """All runs that are due, in order; and the errors of triggers, by index."""
    runs: list[Run] = []
    refused: dict[int, str] = {}
    for of, definition in enumerate(definitions):
        times = fire_times(definition, start, end, lengths[of])
        try:
            for at in islice(times, most + 1 - len(runs)):
                runs.append(
                    Run(
                        id=UUID(int=len(runs)),
                        of=of,
                        fire_time=at,
                        at=at + jitter_of(definition, at),
                        length=lengths[of],
                    )
                )
        except (Exception, SystemExit) as error:
            # A trigger may be a user's, or of a kind that this process does not know.
            refused[of] = shown(error)
        if len(runs) > most:
            raise ConfigurationError(
                f"there are more than {most:,} fire times up to {end:%Y-%m-%d %H:%M}:"
                " choose a shorter span, fewer definitions or a larger most"
            )
    return sorted(runs, key=attrgetter("at")), refused


def _simulated(
    definition: TaskDefinition,
    runs: Sequence[Run],
    length: timedelta,
    changes: Mapping[str, Sequence[tuple[datetime, str]]],
    refused: str | None,
) -> Simulated:
    ran = [each for each in runs if each.start is not None]
    waits = [(each.start or each.at) - each.at for each in ran]
    near = [at for at, _ in changes.get(zone_of(definition.trigger) or "", ())]
    times = [
        each.fire_time
        for each in runs
        if any(abs(each.fire_time - at) < _NEAR for at in near)
    ]
    found = Simulated(
        definition=definition,
        duration=length,
        starts=tuple(sorted(each.start or each.at for each in ran)),
        fires=len(runs),
        skipped=len(runs) - len(ran),
        waited=sum(wait > ZERO for wait in waits),
        longest_wait=max(waits, default=ZERO),
        most_at_once=load_of(_spans(ran)).most,
        effects=_effects(definition.trigger, times),
        warnings=(),
    )
    return replace(found, warnings=tuple(beware_of(found, refused)))


def _effects(trigger: Trigger, times: Sequence[datetime]) -> tuple[Effect, ...]:
    """The effects of changes of the clocks on some fire times, as far as known."""
    try:
        effects = ask(trigger, lambda: [effect_of(trigger, at) for at in times])
    except Exception:
        # A trigger of a user may raise anything.
        return ()
    pairs = zip(times, effects, strict=True)
    return tuple(Effect(at=at, text=text) for at, text in pairs if text is not None)


def _spans(runs: Iterable[Run]) -> Iterable[tuple[datetime, datetime]]:
    return ((each.start, each.end) for each in runs if each.start is not None)
