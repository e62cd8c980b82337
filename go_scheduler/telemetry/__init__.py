"""Metrics and spans by OpenTelemetry, with the extra ``telemetry``."""

import typing

from go_scheduler import lazy_imports as _on_demand

if typing.TYPE_CHECKING:
    from go_scheduler.telemetry.telemetry import Telemetry
else:
    # Hidden from type checkers, which would take any misspelt name for an object.
    __getattr__, __dir__ = _on_demand.on_demand(
        __name__, {"Telemetry": "telemetry"}, extra="telemetry"
    )

__all__ = ["Telemetry"]
