"""Trigger-based task scheduling for Python: a scheduler, a handler, a store."""

import typing

from go_scheduler import lazy_imports as _on_demand
from go_scheduler.client.on_demand import Backfill, Job
from go_scheduler.client.views import Page
from go_scheduler.errors import (
    BusUnavailableError,
    ClaimLostError,
    ConfigurationError,
    ConflictError,
    GoSchedulerError,
    InvalidTriggerError,
    QueueFullError,
    SchedulerStateError,
    ScheduleWarning,
    StoreError,
    StoreUnavailableError,
    TaskDefinitionNotFoundError,
    TaskInstanceNotFoundError,
    TaskInstanceStateError,
    UnknownTriggerError,
)
from go_scheduler.handlers.registry import HandlerRegistry, Task
from go_scheduler.models import (
    Cancelled,
    DefinitionState,
    Deleted,
    Extension,
    NodeInfo,
    Outcome,
    RunEnd,
    State,
    TaskDefinition,
    TaskInstance,
    TaskRun,
)
from go_scheduler.policies import CatchUp, Overlap, RetryPolicy
from go_scheduler.run import Fail, GiveBack, HandedOn, RetryAfter, Run, current_run
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.base import Store
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.triggers import (
    DelayTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    OnDemandTrigger,
    Trigger,
)
from go_scheduler.version import __version__ as __version__

if typing.TYPE_CHECKING:
    from go_scheduler.running.calling.process_executor import ProcessExecutor
    from go_scheduler.triggers import CronTrigger
    from go_scheduler.why import Because, Why
else:
    # Hidden from type checkers, which would take any misspelt name for an object.
    __getattr__, __dir__ = _on_demand.on_demand(
        __name__,
        {
            "Because": "why",
            "CronTrigger": "triggers.cron",
            "ProcessExecutor": "running.calling.process_executor",
            "Why": "why",
        },
    )

__all__ = [
    "Backfill",
    "Because",
    "BusUnavailableError",
    "Cancelled",
    "CatchUp",
    "ClaimLostError",
    "ConfigurationError",
    "ConflictError",
    "CronTrigger",
    "DefinitionState",
    "DelayTrigger",
    "Deleted",
    "ExecuteOnceTrigger",
    "Extension",
    "Fail",
    "GiveBack",
    "GoSchedulerError",
    "HandedOn",
    "HandlerRegistry",
    "IntervalTrigger",
    "InvalidTriggerError",
    "Job",
    "MemoryStore",
    "NodeInfo",
    "OnDemandTrigger",
    "Outcome",
    "Overlap",
    "Page",
    "ProcessExecutor",
    "QueueFullError",
    "RetryAfter",
    "RetryPolicy",
    "Run",
    "RunEnd",
    "ScheduleWarning",
    "Scheduler",
    "SchedulerStateError",
    "State",
    "Store",
    "StoreError",
    "StoreUnavailableError",
    "Task",
    "TaskDefinition",
    "TaskDefinitionNotFoundError",
    "TaskInstance",
    "TaskInstanceNotFoundError",
    "TaskInstanceStateError",
    "TaskRun",
    "Trigger",
    "UnknownTriggerError",
    "Why",
    "current_run",
]
