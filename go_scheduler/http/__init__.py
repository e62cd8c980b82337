"""The scheduler over HTTP: an application to serve, with the extra ``http``."""

import typing

from go_scheduler import lazy_imports as _on_demand

if typing.TYPE_CHECKING:
    from go_scheduler.http.access.authentication import (
        ApiKey,
        BearerAccess,
        OpenAccess,
        new_key,
    )
    from go_scheduler.http.access.caller import Caller
    from go_scheduler.http.access.issuer import OidcIssuer
    from go_scheduler.http.app import create_app
    from go_scheduler.http.limits import Limits
    from go_scheduler.http.serving import serve
    from go_scheduler.http.staggering import JobDefaults
    from go_scheduler.http.work.long_poll import LongPoll
    from go_scheduler.http.worker import Work, Worker, tell_progress
else:
    # Hidden from type checkers, which would take any misspelt name for an object.
    __getattr__, __dir__ = _on_demand.on_demand(
        __name__,
        {
            "ApiKey": "access.authentication",
            "BearerAccess": "access.authentication",
            "Caller": "access.caller",
            "LongPoll": "work.long_poll",
            "JobDefaults": "staggering",
            "Limits": "limits",
            "OidcIssuer": "access.issuer",
            "OpenAccess": "access.authentication",
            "create_app": "app",
            "new_key": "access.authentication",
            "serve": "serving",
            "tell_progress": "worker",
            "Work": "worker",
            "Worker": "worker",
        },
        extra="http",
    )

__all__ = [
    "ApiKey",
    "BearerAccess",
    "Caller",
    "JobDefaults",
    "Limits",
    "LongPoll",
    "OidcIssuer",
    "OpenAccess",
    "Work",
    "Worker",
    "create_app",
    "new_key",
    "serve",
    "tell_progress",
]
