"""Next fire times per second, beside the libraries that people would use instead.

Run it on a quiet machine: ``python benchmarks/triggers.py`` takes about two minutes,
``--quick`` twenty seconds. It needs ``apscheduler>=3.10,<4``. Judge the ratios: all
libraries are measured alternately in one run. Each is asked in its own fastest way, and
its answers are checked first: one that answers wrong is marked, and does not count.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from datetime import UTC, datetime, timedelta, tzinfo
from importlib import import_module
from itertools import compress, dropwhile, islice
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

from croniter import croniter
from cronsim import CronSim
from dateutil import rrule

from go_scheduler import CronTrigger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Rule = Callable[[datetime], rrule.rrule]

MICROSECOND = timedelta(microseconds=1)
NEW_YORK = ZoneInfo("America/New_York")
# Half a day before the clocks of New York change.
STARTS = (
    datetime(2024, 3, 9, 19, tzinfo=UTC),
    datetime(2024, 11, 2, 18, tzinfo=UTC),
)
CHECKED = 1_500
MOST = 2_000
RANDOM = random.Random(4)
INSTANTS = [
    STARTS[0] + timedelta(seconds=RANDOM.randrange(10 * 365 * 86_400))
    for _ in range(50)
]

RULES: dict[str, Rule] = {
    "* * * * *": lambda start: rrule.rrule(
        rrule.MINUTELY, dtstart=start.replace(second=0, microsecond=0)
    ),
    "0 2 * * *": lambda start: rrule.rrule(
        rrule.DAILY, byhour=2, byminute=0, bysecond=0, dtstart=midnight(start)
    ),
    "0 0 29 2 *": lambda start: rrule.rrule(
        rrule.YEARLY, bymonth=2, bymonthday=29, dtstart=midnight(start)
    ),
    "*/15 9-17 * * MON-FRI": lambda start: rrule.rrule(
        rrule.DAILY,
        byweekday=range(5),
        byhour=range(9, 18),
        byminute=range(0, 60, 15),
        bysecond=0,
        dtstart=midnight(start),
    ),
}


class Library(NamedTuple):
    """A way to ask a library for the fire times of one expression in one zone.

    Attributes:
        name: The library's.
        iterate: Its fire times later than an instant, one after the other.
        after: Its first fire time later than an instant.
    """

    name: str
    iterate: Callable[[datetime], Iterator[datetime]]
    after: Callable[[datetime], datetime | None]


def go_scheduler(expression: str, zone: tzinfo) -> Library:
    """Each fire time is asked for by the one before, as the scheduler does it."""
    next_fire_time = CronTrigger(expression, str(zone)).next_fire_time

    def iterate(start: datetime) -> Iterator[datetime]:
        found = next_fire_time(start)
        while found is not None:
            yield found
            found = next_fire_time(found)

    return Library("go_scheduler", iterate, next_fire_time)


def of_croniter(expression: str, zone: tzinfo) -> Library:
    """One object is asked again and again, which saves reading the expression."""
    times = croniter(expression, STARTS[0].astimezone(zone))

    def after(instant: datetime) -> datetime:
        local = instant.astimezone(zone)
        found: datetime = times.get_next(datetime, start_time=local)
        return found

    def iterate(start: datetime) -> Iterator[datetime]:
        yield after(start)
        while True:
            yield times.get_next(datetime)

    return Library("croniter", iterate, after)


def of_cronsim(expression: str, zone: tzinfo) -> Library:
    """It iterates alone, and reads the expression anew for each instant."""

    def iterate(start: datetime) -> Iterator[datetime]:
        return CronSim(expression, start.astimezone(zone))

    return Library("cronsim", iterate, lambda instant: next(iterate(instant)))


def of_apscheduler(expression: str, zone: tzinfo) -> Library:
    """It answers the instant itself, if that is a fire time: hence a microsecond."""
    # It has no types, and is needed here alone.
    cron = import_module("apscheduler.triggers.cron")
    next_fire_time = cron.CronTrigger.from_crontab(expression, zone).get_next_fire_time

    def after(instant: datetime) -> datetime | None:
        found: datetime | None = next_fire_time(None, instant + MICROSECOND)
        return found

    def iterate(start: datetime) -> Iterator[datetime]:
        found = after(start)
        while found is not None:
            yield found
            found = next_fire_time(found, found)

    return Library("apscheduler", iterate, after)


def of_dateutil(expression: str, zone: tzinfo) -> Library:
    """A recurrence counts from its start, which is set close to each instant."""
    rule = RULES[expression]

    def iterate(start: datetime) -> Iterator[datetime]:
        local = start.astimezone(zone)
        return dropwhile(lambda each: each <= local, rule(local))

    def after(instant: datetime) -> datetime | None:
        local = instant.astimezone(zone)
        return rule(local).after(local)

    return Library("dateutil", iterate, after)


LIBRARIES = (go_scheduler, of_croniter, of_cronsim, of_apscheduler, of_dateutil)


def midnight(instant: datetime) -> datetime:
    """The beginning of the day, in the same zone."""
    return instant.replace(hour=0, minute=0, second=0, microsecond=0)


def answers(library: Library) -> list[Sequence[datetime | None]]:
    """What a library answers around the changes of the clocks, as instants."""
    found: list[Sequence[datetime | None]] = [
        [each.astimezone(UTC) for each in islice(library.iterate(start), CHECKED)]
        for start in STARTS
    ]
    for start in STARTS:
        asked = [start + n * timedelta(minutes=17) for n in range(150)]
        nexts = map(library.after, asked)
        found.append([each and each.astimezone(UTC) for each in nexts])
    return found


def iterating(library: Library, seconds: float) -> float:
    """Fire times per second, each the next of the one before."""
    found, count = 0, 16
    began = time.perf_counter()
    while (elapsed := time.perf_counter() - began) < seconds:
        # Not beyond the year 9999, which rare dates reach.
        found += len(list(islice(library.iterate(STARTS[0]), count)))
        count = min(2 * count, MOST)
    return found / elapsed


def from_instants(library: Library, seconds: float) -> float:
    """Fire times per second, each from an instant that has to do with no other."""
    count = 0
    began = time.perf_counter()
    while (elapsed := time.perf_counter() - began) < seconds:
        for instant in INSTANTS:
            library.after(instant)
        count += len(INSTANTS)
    return count / elapsed


def measure(expression: str, zone: tzinfo, *, rounds: int, seconds: float) -> None:
    """Print one line for each way to ask, the libraries side by side."""
    libraries = [make(expression, zone) for make in LIBRARIES]
    expected = answers(libraries[0])
    right = [answers(library) == expected for library in libraries]
    for way in (iterating, from_instants):
        rates = [
            [way(library, seconds) for library in libraries] for _ in range(rounds)
        ]
        medians = list(map(statistics.median, zip(*rates, strict=True)))
        cells = [
            f"{median:>12,.0f}{' ' if is_right else '!'}"
            for median, is_right in zip(medians, right, strict=True)
        ]
        ratios = [ours / max(compress(theirs, right[1:])) for ours, *theirs in rates]
        print(
            f"{expression:<23}{zone!s:<18}{way.__name__.replace('_', ' '):<15}"
            f"{''.join(cells)}{statistics.median(ratios):>8.1f}"
        )


def main() -> None:
    """Measure all expressions in both zones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    quick = parser.parse_args().quick
    names = ["go_scheduler", "croniter", "cronsim", "apscheduler", "dateutil"]
    print("Fire times per second; ! answers wrong and does not count.\n")
    print(f"{'':56}{''.join(f'{name:>12} ' for name in names)}{'ratio':>8}")
    for expression in RULES:
        for zone in (UTC, NEW_YORK):
            rounds, seconds = (3, 0.02) if quick else (9, 0.1)
            measure(expression, zone, rounds=rounds, seconds=seconds)


if __name__ == "__main__":
    main()
