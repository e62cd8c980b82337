"""The dashboard: pages that show what runs, with the extra ``dashboard``."""

import typing

from go_scheduler import lazy_imports as _on_demand

if typing.TYPE_CHECKING:
    from go_scheduler.dashboard.app import create_dashboard
    from go_scheduler.dashboard.signing_in import SignIn
else:
    # Hidden from type checkers, which would take any misspelt name for an object.
    __getattr__, __dir__ = _on_demand.on_demand(
        __name__,
        {"SignIn": "signing_in", "create_dashboard": "app"},
        extra="dashboard",
    )

__all__ = ["SignIn", "create_dashboard"]
