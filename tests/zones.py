"""Time zones of a test's own: their files, and where Python looks for them."""

from __future__ import annotations

import struct
import zoneinfo
from contextlib import contextmanager
from datetime import date, timedelta
from itertools import count
from typing import TYPE_CHECKING

from go_scheduler.triggers import DateCalendar, local_time, register_calendar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

ZONE = "Test/Zone"
_DAY = timedelta(days=1)
_days = (date(2000, 1, 1) + number * _DAY for number in count())


class Zones:
    """A folder of zones that comes before all others.

    Args:
        folder: An empty one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, *offsets: tuple[datetime, float], then: str | float) -> None:
        """Write the data of the zone, and let nobody know.

        Args:
            *offsets: Hours ahead of UTC until so long, earliest first.
            then: And from then on: hours, or what POSIX writes into ``TZ``.
        """
        path = self._folder / ZONE
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(_tzif(offsets, then))

    def bring(self, *offsets: tuple[datetime, float], then: str | float) -> None:
        """Write the data of the zone, and have this process know no others."""
        self.write(*offsets, then=then)
        forget_zones()

    def remove(self) -> None:
        """Remove the zone."""
        (self._folder / ZONE).unlink()


@contextmanager
def zones_in(folder: Path) -> Iterator[Zones]:
    """Have zones looked for in a folder first, and none be known yet."""
    paths, known = zoneinfo.TZPATH, dict(local_time._zones)
    forget_zones()
    zoneinfo.reset_tzpath([folder, *paths])
    try:
        yield Zones(folder)
    finally:
        zoneinfo.reset_tzpath(paths)
        forget_zones()
        local_time._zones.update(known)


def forget_zones() -> None:
    """Have this process know no zone, nor what was worked out by one, as a new one."""
    local_time._zones.clear()
    zoneinfo.ZoneInfo.clear_cache(only_keys=[ZONE])
    days = next(_days)
    register_calendar("forgotten-zones", DateCalendar([(days, days + _DAY)]))


def _tzif(offsets: Sequence[tuple[datetime, float]], then: str | float) -> bytes:
    """A file as RFC 8536 has it, of version 2."""
    rule = then if isinstance(then, str) else _posix(then)
    last = then if not isinstance(then, str) else 0
    hours = [hours for _, hours in offsets] + [last]
    types = b"".join(struct.pack(">lBB", int(each * 3600), 0, 0) for each in hours)
    times = [int(until.timestamp()) for until, _ in offsets]
    body = struct.pack(f">{len(times)}q", *times) + bytes(range(1, len(hours)))
    empty = struct.pack(">4sc15x6l", b"TZif", b"2", 0, 0, 0, 0, 1, 4)
    header = struct.pack(">4sc15x6l", b"TZif", b"2", 0, 0, 0, len(times), len(hours), 4)
    return (
        empty
        + (struct.pack(">lBB", 0, 0, 0) + b"UTC\0")
        + header
        + (body + types + b"LMT\0")
        + f"\n{rule}\n".encode()
    )


def _posix(hours: float) -> str:
    """An offset as POSIX writes it, which counts westward."""
    minutes = round(-hours * 60)
    sign = "-" if minutes < 0 else ""
    return f"<ZZZ>{sign}{abs(minutes) // 60}:{abs(minutes) % 60:02}"
