"""Time zones by their names: kept while their data are the same, and renewed."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, tzinfo
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.triggers.base import Trigger

# They mean something else on each machine, or count leap seconds.
_NOT_ZONES = ("localtime", "posixrules", "right/")
_MISSING = (LookupError, OSError, ValueError, ImportError)


class _Zone(NamedTuple):
    """A zone, and the data that it was read from, or older ones."""

    rules: tzinfo
    data: bytes


_zones: dict[str, _Zone] = {}
_lock = Lock()
_edition = 0


def zone_key(timezone: object) -> str:
    """The name under which a time zone is stored.

    Args:
        timezone: A name of the IANA database, or a ``ZoneInfo`` that has one.

    Raises:
        InvalidTriggerError: It is neither, or there is no zone of this name here.
    """
    key = timezone.key if isinstance(timezone, ZoneInfo) else timezone
    if not isinstance(key, str):
        raise InvalidTriggerError(
            "timezone must be a name, such as 'Europe/Berlin', or a ZoneInfo that has"
            f" a name, not {shown(timezone)}"
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
    """The time zone of a name: the identical one until its data change.

    Raises:
        InvalidTriggerError: There is no zone of this name here.
    """
    if (known := _zones.get(key)) is not None:
        return known.rules
    if key == "UTC":
        return UTC
    try:
        if not key.startswith(_NOT_ZONES):
            # Two threads that read it are both to have the identical one.
            return _zones.setdefault(key, _read(key)).rules
    except _MISSING:
        pass
    raise InvalidTriggerError(
        f"there is no time zone {shown(key)}; names are such as 'Europe/Berlin'. If"
        " none is known, install tzdata"
    )


def renew_zones() -> Sequence[str]:
    """Read those zones anew that have been asked for and whose data have changed.

    One that is gone, or cannot be read, keeps its rules. Python's own memory of the
    others is cleared as well, so that ``ZoneInfo`` answers by the new data.

    Returns:
        The names of those that have changed, in alphabetical order.
    """
    global _edition
    with _lock:
        changed = {
            key: zone
            for key, known in sorted(_zones.items())
            if (zone := _renewed(key, known)) is not known
        }
        if changed:
            ZoneInfo.clear_cache(only_keys=changed)
            _zones.update(changed)
            _edition += 1
    return list(changed)


def edition() -> int:
    """A number that rises whenever the data of a zone have changed."""
    return _edition


def _renewed(key: str, known: _Zone) -> _Zone:
    try:
        return known if _data(key) == known.data else _read(key)
    except _MISSING:
        return known


def _read(key: str) -> _Zone:
    # Only what is the name of a zone is the name of a file to be read.
    ZoneInfo.no_cache(key)
    # The data first: if they change in between, that is seen the next time.
    data = _data(key)
    return _Zone(ZoneInfo.no_cache(key), data)


def _data(key: str) -> bytes:
    """The file of a zone, which is looked for where ``ZoneInfo`` looks for it."""
    for folder in zoneinfo.TZPATH:
        if (path := Path(folder, key)).is_file():
            return path.read_bytes()
    # It is slow to import, and of no use where the system has the data.
    from importlib import resources

    return resources.files("tzdata").joinpath("zoneinfo", key).read_bytes()
