"""Time zones by their names."""

from __future__ import annotations

from datetime import UTC, tzinfo
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.formatting import shown

if TYPE_CHECKING:
    from go_scheduler.triggers.base import Trigger

# They mean something else on each machine, or count leap seconds.
_NOT_ZONES = ("localtime", "posixrules", "right/")
_MISSING = (LookupError, OSError, ValueError, ImportError)


_zones: dict[str, tzinfo] = {}


def zone_key(timezone: object) -> str:
    """The name under which a time zone is stored.

    Args:
        timezone: A name of the IANA database, or a ``ZoneInfo`` that has one.

    Raises:
        InvalidTriggerError: It is neither, or there is no zone of this name here.
    """
    key = timezone.key if isinstance(timezone, ZoneInfo) else timezone
    if not isinstance(key, str):
        advice = ": write 'UTC'" if timezone is UTC else ""
        raise InvalidTriggerError(
            "timezone must be a name, such as 'Europe/Berlin', or a ZoneInfo that has"
            f" a name, not {shown(timezone)}{advice}"
        )
    load_zone(key)
    return str(key)


def zone_of(trigger: Trigger) -> str | None:
    """The name of a trigger's time zone; None if it has none."""
    try:
        return zone_key(getattr(trigger, "timezone", None))
    except Exception:
        # The timezone of a third party's trigger may be anything.
        return None


def load_zone(key: str) -> tzinfo:
    """The time zone of a name: in this process always the identical one.

    Raises:
        InvalidTriggerError: There is no zone of this name here.
    """
    if (known := _zones.get(key)) is not None:
        return known
    if key == "UTC":
        return UTC
    try:
        if not key.startswith(_NOT_ZONES):
            # Two threads that read it are both to have the identical one.
            return _zones.setdefault(key, ZoneInfo(key))
    except _MISSING:
        pass
    raise InvalidTriggerError(
        f"there is no time zone {shown(key)}; names are such as 'Europe/Berlin'. If"
        " none is known, install tzdata"
    )
