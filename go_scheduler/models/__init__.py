"""Definitions, instances, runs and nodes, and the small frozen values of them."""

from go_scheduler.models.counts import (
    BOUNDS,
    COUNTED,
    Backlog,
    Counted,
    Counts,
    Histogram,
    QueueStats,
)
from go_scheduler.models.definition import METADATA_LIMIT, Pause, TaskDefinition
from go_scheduler.models.instance import (
    PAYLOAD_LIMIT,
    RESULT_LIMIT,
    RUNS_KEPT,
    RunEnd,
    Silence,
    Skipped,
    Stage,
    TaskInstance,
    TaskRun,
)
from go_scheduler.models.node_info import NodeInfo
from go_scheduler.models.states import (
    OPEN,
    RUNS,
    WAITING,
    Cancelled,
    DefinitionState,
    Deleted,
    Extension,
    Outcome,
    State,
)

__all__ = [
    "BOUNDS",
    "COUNTED",
    "METADATA_LIMIT",
    "OPEN",
    "PAYLOAD_LIMIT",
    "RESULT_LIMIT",
    "RUNS",
    "RUNS_KEPT",
    "WAITING",
    "Backlog",
    "Cancelled",
    "Counted",
    "Counts",
    "DefinitionState",
    "Deleted",
    "Extension",
    "Histogram",
    "NodeInfo",
    "Outcome",
    "Pause",
    "QueueStats",
    "RunEnd",
    "Silence",
    "Skipped",
    "Stage",
    "State",
    "TaskDefinition",
    "TaskInstance",
    "TaskRun",
]
