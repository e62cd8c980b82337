"""The scheduler over HTTP: an application to serve, with the extra ``http``."""

import typing

from go_scheduler import on_demand as _on_demand

if typing.TYPE_CHECKING:
    from go_scheduler.http.app import create_app
    from go_scheduler.http.serving import serve
else:
    # Hidden from type checkers, which would take any misspelt name for an object.
    __getattr__, __dir__ = _on_demand.on_demand(
        __name__,
        {
            "create_app": "app",
            "serve": "serving",
        },
    )

__all__ = [
    "create_app",
    "serve",
]
