"""Simulates faults by many seeds: ``python -m tests.simulation.seeds 1000``."""

from __future__ import annotations

import sys
from datetime import timedelta

from go_scheduler import (
    CronTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    Overlap,
    RetryPolicy,
    TaskDefinition,
)
from go_scheduler.simulation import FaultReport, simulate_faults
from go_scheduler.testing.builders import MINUTE, SECOND
from go_scheduler.testing.clock import START

DEFINITIONS = [
    TaskDefinition(
        id=TaskDefinition.id_for("often"),
        name="often",
        trigger=IntervalTrigger(45 * SECOND),
    ),
    TaskDefinition(
        id=TaskDefinition.id_for("long"),
        name="long",
        trigger=CronTrigger("*/2 * * * *"),
    ),
    TaskDefinition(
        id=TaskDefinition.id_for("once"),
        name="once",
        trigger=ExecuteOnceTrigger(START + timedelta(minutes=3, seconds=30)),
    ),
    TaskDefinition(
        id=TaskDefinition.id_for("alone"),
        name="alone",
        trigger=IntervalTrigger(MINUTE),
        overlap=Overlap.SKIP,
    ),
    TaskDefinition(
        id=TaskDefinition.id_for("retried"),
        name="retried",
        trigger=IntervalTrigger(90 * SECOND),
        retry=RetryPolicy(max_attempts=4, delay=5 * SECOND),
    ),
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
