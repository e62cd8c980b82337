"""Loop 1, the definition scheduler: creates instances of definitions that fire soon."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.batches import write_in_halves
from go_scheduler.bounded_log import BoundedLog
from go_scheduler.clock import ZERO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.clock import StoreClock
    from go_scheduler.guard import Guard
    from go_scheduler.models import Firing, TaskDefinition
    from go_scheduler.stores.base import Store

_BATCH = 100
_MOST_ROWS = 500
_ASIDE = timedelta(minutes=1)
# What could not be written may have been locked, which is over soon as a rule.
_ASIDE_AT_FIRST = timedelta(seconds=5)
_MOST_ASIDE = 10_000


class DefinitionScheduler:
    """Reads definitions that fire soon, creates their instances, and moves them on.

    One tick is one page. A definition whose trigger fails, or that cannot be written,
    is reported once and left alone for up to a minute at a time.

    Args:
        store: Where the definitions are.
        clock: The store's time, as this node has it.
        guard: Calls the triggers.
        ahead: How far past the store's time to create instances.
        runner_window: Instances due within it are told to the runner at once.
        created: Called when there are such instances.
    """

    def __init__(
        self,
        store: Store,
        clock: StoreClock,
        *,
        guard: Guard,
        ahead: timedelta,
        runner_window: timedelta,
        created: Callable[[], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._guard = guard
        self._ahead = ahead
        self._runner_window = runner_window
        self._created = created
        self._after: TaskDefinition | None = None
        self._again = False
        self._aside: dict[UUID, _Aside] = {}
        self._log = BoundedLog(logging.getLogger(__name__))

    def look(self) -> None:
        """Begin with the first page, once this pass over the pages has ended."""
        # Not sooner, else who calls this often keeps the later pages from being read.
        self._again = True

    def tick(self) -> timedelta | None:
        """Fire one page of due definitions; zero while there are more."""
        self._clock.refresh()
        self._log.begin()
        after, self._after = self._after, None
        if after is None:
            self._again = False
        page = self._store.due_definitions(ahead=self._ahead, after=after, limit=_BATCH)
        now = self._clock.now()
        until = now + self._ahead
        ready = [definition for definition in page if not self._is_aside(definition)]
        firings = self._guard.plan(ready, now=now, until=until, failed=self._set_aside)
        # What has failed before must not hold up the others again.
        others = [each for each in firings if each.definition.id not in self._aside]
        suspects = [[each] for each in firings if each.definition.id in self._aside]
        parts = [*_in_parts(others), *suspects]
        won = [firing for part in parts for firing in self._fire(part)]
        self._tell(won, now + self._runner_window)
        if any(
            firing.next_fire_time is not None and firing.next_fire_time <= until
            for firing in won
        ):
            self._again = True
        if len(page) == _BATCH:
            self._after = page[-1]
        return ZERO if self._after is not None or self._again else None

    def _fire(self, firings: Sequence[Firing]) -> Sequence[Firing]:
        def failed(firing: Firing, error: Exception) -> None:
            self._set_aside(firing.definition, error, at_first=_ASIDE_AT_FIRST)

        answers = write_in_halves(firings, self._store.fire_definitions, failed)
        won = set().union(*(answer.done for answer in answers))
        for firing in firings:
            if firing.definition.id in won:
                self._aside.pop(firing.definition.id, None)
        return [firing for firing in firings if firing.definition.id in won]

    def _tell(self, firings: Sequence[Firing], until: datetime) -> None:
        if any(
            firing.fire_times and firing.fire_times[0] <= until for firing in firings
        ):
            self._created()

    def _is_aside(self, definition: TaskDefinition) -> bool:
        aside = self._aside.get(definition.id)
        return (
            aside is not None
            and aside.revision == definition.revision
            and self._clock.elapsed() < aside.until
        )

    def _set_aside(
        self,
        definition: TaskDefinition,
        error: Exception,
        *,
        at_first: timedelta = _ASIDE,
    ) -> None:
        before = self._aside.pop(definition.id, None)
        again = before is not None and before.revision == definition.revision
        length = min(2 * before.length, _ASIDE) if before and again else at_first
        self._aside[definition.id] = _Aside(
            definition.revision, self._clock.elapsed() + length, length
        )
        if len(self._aside) > _MOST_ASIDE:
            del self._aside[next(iter(self._aside))]
        if again:
            return
        self._log.write(
            logging.ERROR,
            "definition %s cannot fire and is left alone for %d s: %r",
            definition.id,
            length.total_seconds(),
            error,
            ids={"definition_id": definition.id},
            error=error,
        )


class _Aside(NamedTuple):
    """Until when a definition is left alone, as it was at this revision."""

    revision: int | None
    until: timedelta
    length: timedelta


def _in_parts(firings: Sequence[Firing]) -> Iterator[Sequence[Firing]]:
    """The firings, so many at a time that no write delays others by much."""
    part: list[Firing] = []
    rows = 0
    for firing in firings:
        part.append(firing)
        rows += 1 + len(firing.fire_times)
        if rows >= _MOST_ROWS:
            yield part
            part, rows = [], 0
    if part:
        yield part
