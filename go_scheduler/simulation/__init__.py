"""Simulates definitions, and compares a declared set with the stored one.

Nothing here writes to a store, and ``simulate`` does not read one.
"""

from go_scheduler.simulation.faults import FaultReport, simulate_faults
from go_scheduler.simulation.nodes import Fault, FaultKind
from go_scheduler.simulation.picture import picture
from go_scheduler.simulation.plans import Change, Plan, compare, plan
from go_scheduler.simulation.simulating import (
    Effect,
    Simulated,
    Simulation,
    durations_of,
    simulate,
)

__all__ = [
    "Change",
    "Effect",
    "Fault",
    "FaultKind",
    "FaultReport",
    "Plan",
    "Simulated",
    "Simulation",
    "compare",
    "durations_of",
    "picture",
    "plan",
    "simulate",
    "simulate_faults",
]
