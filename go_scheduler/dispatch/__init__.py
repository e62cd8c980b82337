"""Runs over a message bus, to be run anywhere; with the extra ``dispatch``."""

import typing

from go_scheduler import on_demand as _on_demand

if typing.TYPE_CHECKING:
    from go_scheduler.dispatch.bus import Delivery, MessageBus, Subscription
    from go_scheduler.dispatch.dispatcher import Dispatcher
    from go_scheduler.dispatch.kombu_bus.bus_by_kombu import KombuBus
    from go_scheduler.dispatch.messages.actions import Cancel, Run, read_action
    from go_scheduler.dispatch.messages.schema import message_schema
    from go_scheduler.dispatch.messages.statuses import Status, read_statuses
    from go_scheduler.dispatch.opening import open_bus, register_bus
    from go_scheduler.dispatch.topics import Topics
    from go_scheduler.dispatch.worker import DispatchWorker, Work
    from go_scheduler.dispatch.working.taken import tell_progress
else:
    # Hidden from type checkers, which would take any misspelt name for an object.
    __getattr__, __dir__ = _on_demand.on_demand(
        __name__,
        {
            "Cancel": "messages.actions",
            "Delivery": "bus",
            "DispatchWorker": "worker",
            "Dispatcher": "dispatcher",
            "KombuBus": "kombu_bus.bus_by_kombu",
            "MessageBus": "bus",
            "Run": "messages.actions",
            "Status": "messages.statuses",
            "Subscription": "bus",
            "Topics": "topics",
            "Work": "worker",
            "message_schema": "messages.schema",
            "open_bus": "opening",
            "read_action": "messages.actions",
            "read_statuses": "messages.statuses",
            "register_bus": "opening",
            "tell_progress": "working.taken",
        },
        extra="dispatch",
    )

__all__ = [
    "Cancel",
    "Delivery",
    "DispatchWorker",
    "Dispatcher",
    "KombuBus",
    "MessageBus",
    "Run",
    "Status",
    "Subscription",
    "Topics",
    "Work",
    "message_schema",
    "open_bus",
    "read_action",
    "read_statuses",
    "register_bus",
    "tell_progress",
]
