"""Stores: where definitions and instances are kept, and what they are handed."""

import typing

from go_scheduler import lazy_imports as _on_demand
from go_scheduler.json import contains
from go_scheduler.models import (
    Cancelled,
    DefinitionState,
    Outcome,
    Pause,
    Skipped,
    State,
)
from go_scheduler.stores.base import JoinedStore, Store
from go_scheduler.stores.filters import (
    DefinitionFilter,
    DefinitionOrder,
    Filter,
    Order,
    Page,
    sorted_page,
)
from go_scheduler.stores.hints import Hints, News
from go_scheduler.stores.memory import MemoryStore, Snapshot
from go_scheduler.stores.messages import (
    Addition,
    Announcement,
    Answer,
    Claim,
    Claimant,
    Fired,
    Firing,
    NodeContact,
    Own,
    Position,
    Put,
    Release,
    Renewal,
    Retention,
    Reviewed,
    RunOutcome,
    Tombstone,
)
from go_scheduler.stores.rules import Declaration, Declared, SetVersion

if typing.TYPE_CHECKING:
    from go_scheduler.stores.opening import open_store
else:
    # Hidden from type checkers, which would take any misspelt name for an object.
    __getattr__, __dir__ = _on_demand.on_demand(__name__, {"open_store": "opening"})

__all__ = [
    "Addition",
    "Announcement",
    "Answer",
    "Cancelled",
    "Claim",
    "Claimant",
    "Declaration",
    "Declared",
    "DefinitionFilter",
    "DefinitionOrder",
    "DefinitionState",
    "Filter",
    "Fired",
    "Firing",
    "Hints",
    "JoinedStore",
    "MemoryStore",
    "News",
    "NodeContact",
    "Order",
    "Outcome",
    "Own",
    "Page",
    "Pause",
    "Position",
    "Put",
    "Release",
    "Renewal",
    "Retention",
    "Reviewed",
    "RunOutcome",
    "SetVersion",
    "Skipped",
    "Snapshot",
    "State",
    "Store",
    "Tombstone",
    "contains",
    "open_store",
    "sorted_page",
]
