"""Simulates faults by many seeds: ``python -m tests.simulation.seeds 1000``."""

from __future__ import annotations

import sys
from typing import Any

from go_scheduler import (
    CronTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    Overlap,
    RetryPolicy,
    TaskDefinition,
    Trigger,
)
from go_scheduler.simulation import FaultReport, simulate_faults
from go_scheduler.testing.builders import MINUTE, SECOND
from go_scheduler.testing.clock import START


def named(name: str, trigger: Trigger, **given: Any) -> TaskDefinition:
    """A definition that has the same id each time."""
    id = TaskDefinition.id_for(name)
    return TaskDefinition(id=id, name=name, trigger=trigger, **given)


RETRY = RetryPolicy(max_attempts=4, delay=5 * SECOND)
DEFINITIONS = [
    named("often", IntervalTrigger(45 * SECOND)),
    named("long", CronTrigger("*/2 * * * *")),
    named("once", ExecuteOnceTrigger(START + 3.5 * MINUTE)),
    named("alone", IntervalTrigger(MINUTE), overlap=Overlap.SKIP),
    named("retried", IntervalTrigger(90 * SECOND), retry=RETRY),
]
LENGTHS = {"often": 3, "long": 30, "once": 10, "alone": 50, "retried": 2}


def simulated(seed: int) -> FaultReport:
    """What the seed comes to."""
    return simulate_faults(
        DEFINITIONS,
        seed=seed,
        span=10 * MINUTE,
        durations={
            each.id: LENGTHS[each.name] * SECOND for each in DEFINITIONS if each.name
        },
        failures=0.2,
    )


def main(first: int, last: int) -> int:
    """Print each seed that breaks a promise, with its faults; answer how many."""
    broken = 0
    for seed in range(first, last):
        report = simulated(seed)
        if report.problems:
            broken += 1
            faults = report.shrunk().faults
            lines = [f"seed {seed}", *report.problems, "with", *map(str, faults)]
            sys.stdout.write("\n  ".join(lines) + "\n")
            sys.stdout.flush()
    sys.stdout.write(f"{broken} of {last - first} seeds break a promise\n")
    return broken


if __name__ == "__main__":
    *first, last = (int(each) for each in sys.argv[1:])
    sys.exit(main(first[0] if first else 0, last) > 0)
