"""The simulation: fire times, turns and load of all definitions, without a store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from operator import attrgetter
from typing import TYPE_CHECKING
from uuid import UUID

from go_scheduler.checks import check_at_least, check_positive, check_type
from go_scheduler.clock import ZERO
from go_scheduler.errors import ConfigurationError
from go_scheduler.firing.jitter import jitter_of
from go_scheduler.models import TaskDefinition
from go_scheduler.shown import shown
from go_scheduler.simulation.beware import beware_of, beware_of_all
from go_scheduler.simulation.load import load_of, minute_of
from go_scheduler.simulation.series import fire_times
from go_scheduler.simulation.simulated import Effect, Simulated, Simulation
from go_scheduler.simulation.turns import Run, take_turns
from go_scheduler.triggers.asking import asked
from go_scheduler.triggers.base import utc
from go_scheduler.triggers.previews import effect_of
from go_scheduler.triggers.wall.zone_changes import zone_changes
from go_scheduler.triggers.wall.zones import zone_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from go_scheduler.triggers.base import Trigger

MOST_FIRES = 200_000
"""So many fire times are simulated, and no more, where nothing else is said."""
LONGEST_SPAN = timedelta(days=366)
WEEK = timedelta(days=7)
# Before and after a change of the clocks, so far local times may be moved by it.
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
    """What definitions would do from a start on; nothing is run, and no store asked.

    Those that were read from a store go on as they are kept there. All others begin as
    if they were scheduled at the start. Every run is taken to succeed.

    ```python
    simulation = simulate(definitions, start=datetime(2030, 1, 7, tzinfo=UTC))
    print(simulation.fires, simulation.busiest)
    ```

    Args:
        definitions: Each id once.
        start: An aware instant.
        span: Up to so long after it; at most 366 days.
        durations: How long each run lasts; or of which definition, by its id, how long:
            the others then take no time. ``durations_of`` reads them from history.
        workers: How many can run at once on all nodes together; None: any number.
        most: The most fire times, of all together.

    Raises:
        ConfigurationError: An argument is wrong, or there are more fire times than
            ``most``.
    """
    given = _checked(definitions)
    start = utc(start, name="start")
    check_positive("span", span)
    if span > LONGEST_SPAN:
        raise ConfigurationError(f"span must be at most 366 days, not {shown(span)}")
    for name, number in (("workers", workers), ("most", most)):
        if number is not None:
            check_type(name, number, int)
            _check_number(name, number)
    try:
        end = start + span
    except OverflowError:
        raise ConfigurationError(f"start is too late: {shown(start)}") from None
    lengths = _lengths(given, durations)
    runs, refused = _runs(given, lengths, start=start, end=end, most=most)
    take_turns(runs, given)
    return _simulation(given, runs, refused, lengths, (start, end), workers)


def _check_number(name: str, number: int) -> None:
    """Refuse a number below one."""
    if number < 1:
        raise ConfigurationError(f"{name} must be at least 1, not {shown(number)}")


def _checked(definitions: Iterable[TaskDefinition]) -> Sequence[TaskDefinition]:
    given = list(definitions)
    ids: set[UUID] = set()
    for each in given:
        check_type("a definition", each, TaskDefinition)
        if each.id in ids:
            raise ConfigurationError(f"definition {each.id} is there twice")
        ids.add(each.id)
    return given


def _lengths(
    definitions: Sequence[TaskDefinition], durations: object
) -> Sequence[timedelta]:
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
    """All that is due, in order; and what the triggers raised that cannot be asked."""
    runs: list[Run] = []
    refused: dict[int, str] = {}
    for of, definition in enumerate(definitions):
        try:
            for at in fire_times(definition, start, end, lengths[of]):
                if len(runs) == most:
                    raise _TooManyError
                due = at + jitter_of(definition, at)
                runs.append(
                    Run(
                        id=UUID(int=len(runs)),
                        of=of,
                        fire_time=at,
                        at=due,
                        length=lengths[of],
                    )
                )
        except _TooManyError:
            raise ConfigurationError(
                f"there are more than {most:,} fire times up to {end:%Y-%m-%d %H:%M}:"
                " choose a shorter span, fewer definitions or a larger most"
            ) from None
        except (Exception, SystemExit) as error:
            # A trigger may be anybody's, or of a kind that is not known here.
            refused[of] = shown(error)
    return sorted(runs, key=attrgetter("at")), refused


class _TooManyError(Exception):
    """There are more fire times than are to be simulated."""


def _simulation(
    definitions: Sequence[TaskDefinition],
    runs: Sequence[Run],
    refused: Mapping[int, str],
    lengths: Sequence[timedelta],
    times: tuple[datetime, datetime],
    workers: int | None,
) -> Simulation:
    start, end = times
    zones = sorted({zone for each in definitions if (zone := zone_of(each.trigger))})
    changes = {zone: zone_changes(zone, start, end) for zone in zones}
    by_definition: list[list[Run]] = [[] for _ in definitions]
    for run in runs:
        by_definition[run.of].append(run)
    simulated = [
        _simulated(definition, by_definition[of], lengths[of], changes, refused.get(of))
        for of, definition in enumerate(definitions)
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
    return beware_of(found, refused)


def _effects(trigger: Trigger, times: Sequence[datetime]) -> tuple[Effect, ...]:
    """What the clocks do to some fire times, as far as that can be asked."""
    try:
        effects = asked(trigger, lambda: [effect_of(trigger, at) for at in times])
    except Exception:
        # The trigger may be anybody's.
        return ()
    pairs = zip(times, effects, strict=True)
    return tuple(Effect(at=at, text=text) for at, text in pairs if text is not None)


def _spans(runs: Iterable[Run]) -> Iterable[tuple[datetime, datetime]]:
    return ((each.start, each.end) for each in runs if each.start is not None)
