"""How times, durations, errors and nodes are written for a tired person."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import TYPE_CHECKING

from go_scheduler.triggers.zones import load_zone, zone_of

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import NodeInfo
    from go_scheduler.triggers.base import Trigger

_UNITS = (
    ("d", timedelta(days=1)),
    ("h", timedelta(hours=1)),
    ("min", timedelta(minutes=1)),
    ("s", timedelta(seconds=1)),
    ("ms", timedelta(milliseconds=1)),
)


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
        utc = f"{_clock(at.astimezone(UTC))} UTC"
        if self._name == "UTC":
            return utc
        return f"{_clock(at.astimezone(self._zone))} {self._name} ({utc})"


def length(duration: timedelta) -> str:
    """A duration in its two largest units."""
    parts: list[str] = []
    for name, unit in _UNITS:
        number, duration = divmod(duration, unit)
        if number and len(parts) < 2:
            parts.append(f"{number} {name}")
    return " ".join(parts[:2]) or "less than 1 ms"


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


def _clock(at: datetime) -> str:
    precision = "microseconds" if at.microsecond else "seconds"
    return at.replace(tzinfo=None).isoformat(" ", precision)
