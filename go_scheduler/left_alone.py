"""Definitions that are left alone for a while because they cannot be fired."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.clock import ZERO

if TYPE_CHECKING:
    from uuid import UUID

    from go_scheduler.clock import Clock
    from go_scheduler.models import TaskDefinition

LONGEST = timedelta(minutes=1)
"""For so long at most one that fails is left alone."""

_FAILED_AT_FIRST = timedelta(seconds=1)
_LOCKED_AT_FIRST = timedelta(milliseconds=100)
_LONGEST_LOCKED = timedelta(seconds=1)
# What is locked for less is nothing to speak of.
_REPORTED_AT = 8 * _LOCKED_AT_FIRST
_MOST = 10_000


class LeftAlone:
    """Remembers which definitions were locked or have failed, and until when to wait.

    Each time for twice as long as the time before. One that has been edited since is
    not known any more.

    Args:
        clock: Measures elapsed time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[UUID, _Entry] = {}

    def has(self, definition: TaskDefinition) -> bool:
        """Whether it is to be left alone now."""
        entry = self._find(definition)
        return entry is not None and self._clock.elapsed() < entry.until

    def knows(self, definition: TaskDefinition) -> bool:
        """Whether it was locked or has failed, and has not been fired since."""
        return self._find(definition) is not None

    def failed(self, definition: TaskDefinition) -> bool:
        """Whether it has failed, the last time it was tried."""
        entry = self._find(definition)
        return entry is not None and entry.failed

    def was_locked(self, definition: TaskDefinition) -> bool:
        """Whether it was locked, the last time it was tried."""
        return self.knows(definition) and not self.failed(definition)

    def length(self, definition: TaskDefinition) -> timedelta:
        """For how long it is left alone."""
        return self._entries[definition.id].length

    def wait(self, since: timedelta) -> timedelta | None:
        """How soon the first of what was locked is to be tried; None: nothing was.

        Args:
            since: What had to wait no longer by then has been seen to.
        """
        untils = [each.until for each in self._entries.values() if not each.failed]
        first = min((each for each in untils if each > since), default=None)
        return None if first is None else max(ZERO, first - self._clock.elapsed())

    def fail(
        self, definition: TaskDefinition, *, at_first: timedelta = _FAILED_AT_FIRST
    ) -> bool:
        """Leave alone what has failed; true if that is new."""
        before = self._find(definition)
        length = at_first
        if before is not None and before.failed:
            length = min(2 * before.length, LONGEST)
        self._put(definition, length, failed=True)
        return before is None or not before.failed

    def lock(self, definition: TaskDefinition) -> bool:
        """Leave alone what is locked; true if it has been for a while now."""
        before = self._find(definition)
        length = _LOCKED_AT_FIRST
        if before is not None and not before.failed:
            length = min(2 * before.length, _LONGEST_LOCKED)
        self._put(definition, length, failed=False)
        return length == _REPORTED_AT

    def forget(self, definition: TaskDefinition) -> None:
        """Take note that it has been fired, or need not be."""
        self._entries.pop(definition.id, None)

    def _find(self, definition: TaskDefinition) -> _Entry | None:
        entry = self._entries.get(definition.id)
        edited = entry is not None and entry.revision != definition.revision
        return None if edited else entry

    def _put(
        self, definition: TaskDefinition, length: timedelta, *, failed: bool
    ) -> None:
        self._entries.pop(definition.id, None)
        until = self._clock.elapsed() + length
        self._entries[definition.id] = _Entry(
            definition.revision, until, length, failed
        )
        if len(self._entries) > _MOST:
            del self._entries[next(iter(self._entries))]


class _Entry(NamedTuple):
    """Until when a definition is left alone, as it was at this revision."""

    revision: int | None
    until: timedelta
    length: timedelta
    failed: bool
