"""Definitions, instances, runs and nodes, and the small frozen values of them."""

from go_scheduler.models.counts import Counts
from go_scheduler.models.definition import METADATA_LIMIT, TaskDefinition
from go_scheduler.models.histogram import BOUNDS, Histogram
from go_scheduler.models.instance import (
    PAYLOAD_LIMIT,
    RESULT_LIMIT,
    Skipped,
    TaskInstance,
)
from go_scheduler.models.looked_up import COUNTED, Backlog, Counted
from go_scheduler.models.node_info import NodeInfo
from go_scheduler.models.pause import Pause
from go_scheduler.models.queue_stats import QueueStats
from go_scheduler.models.stage import Silence, Stage
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
from go_scheduler.models.task_run import RUNS_KEPT, RunEnd, TaskRun

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
