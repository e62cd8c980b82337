"""Runs over a message bus, to be run anywhere; with the extra ``dispatch``."""

import typing

from go_scheduler import lazy_imports as _on_demand

if typing.TYPE_CHECKING:
    from go_scheduler.dispatch.bus import (
        Delivery,
        MessageBus,
        Subscription,
        Topics,
        open_bus,
        register_bus,
    )
    from go_scheduler.dispatch.dispatcher import Dispatcher
    from go_scheduler.dispatch.kombu_bus import KombuBus
    from go_scheduler.dispatch.messages.message import (
        Cancel,
        Run,
        Status,
        message_schema,
        read_action,
        read_statuses,
    )
    from go_scheduler.dispatch.worker import DispatchWorker, tell_progress
    from go_scheduler.working.worker import Work
else:
    # Hidden from type checkers, which would take any misspelt name for an object.
    __getattr__, __dir__ = _on_demand.on_demand(
        __name__,
        {
            "Cancel": "messages.message",
            "Delivery": "bus",
            "DispatchWorker": "worker",
            "Dispatcher": "dispatcher",
            "KombuBus": "kombu_bus",
            "MessageBus": "bus",
            "Run": "messages.message",
            "Status": "messages.message",
            "Subscription": "bus",
            "Topics": "bus",
            "Work": "worker",
            "message_schema": "messages.message",
            "open_bus": "bus",
            "read_action": "messages.message",
            "read_statuses": "messages.message",
            "register_bus": "bus",
            "tell_progress": "worker",
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
