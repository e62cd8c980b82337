"""Times, errors and nodes as text in answers."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from go_scheduler.formatting import clock_text
from go_scheduler.triggers.zones import load_zone, zone_of

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import NodeInfo
    from go_scheduler.triggers.base import Trigger


class Times:
    """Writes times in the zone of a schedule, and in UTC.

    Args:
        trigger: Its zone counts.
    """

    def __init__(self, trigger: Trigger) -> None:
        self._name = zone_of(trigger) or "UTC"
        self._zone = load_zone(self._name)

    def __call__(self, at: datetime) -> str:
        """An instant, in both."""
        utc = f"{clock_text(at.astimezone(UTC))} UTC"
        if self._name == "UTC":
            return utc
        return f"{clock_text(at.astimezone(self._zone))} {self._name} ({utc})"


def summary(error: str) -> str:
    """The line of a traceback that says what was raised; else the first line."""
    # The frames of an exception group, and what it is, stand behind a rule.
    lines = [each.removeprefix("  | ") for each in error.strip().splitlines()] or [""]
    frames = [i for i, line in enumerate(lines) if line.startswith("  File ")]
    behind = lines[frames[-1] :] if frames else lines
    return next(
        (line for line in behind if not line.startswith(" ")), lines[-1].strip()
    )


def node_text(node: NodeInfo | None, id: UUID | None) -> str:
    """A node, with its machine and process if they are known."""
    return (
        f"node {id}, of which nothing is known any more" if node is None else str(node)
    )
