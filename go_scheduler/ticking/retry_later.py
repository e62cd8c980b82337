"""Many rows are written at once; one that fails is left aside, alone."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from go_scheduler.clock import ZERO, StoreClock
from go_scheduler.errors import StoreUnavailableError
from go_scheduler.events import (
    InstanceLocked,
    InstanceUnrecorded,
    Write,
)
from go_scheduler.events.event import of_instance
from go_scheduler.formatting import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence, Set
    from uuid import UUID

    from go_scheduler.events.event_bus import Teller
    from go_scheduler.models import TaskInstance
    from go_scheduler.stores import messages

_BUSY_AT_FIRST = timedelta(milliseconds=100)
_BUSY_AT_MOST = timedelta(seconds=1)
# What is locked for less is nothing to speak of.
_TELLING = 8 * _BUSY_AT_FIRST
_FAILED_AT_FIRST = timedelta(seconds=1)
_FAILED_AT_MOST = timedelta(seconds=10)

Row = TypeVar("Row")


class RetryLater(Generic[Row]):
    """Rows that were locked or have failed, and are tried again later.

    Each time after twice as long as the time before.

    Args:
        at_first: For so long what has failed is left aside the first time.
        at_most: And for so long at most.
    """

    def __init__(
        self,
        *,
        at_first: timedelta = _FAILED_AT_FIRST,
        at_most: timedelta = _FAILED_AT_MOST,
    ) -> None:
        self._at_first = at_first
        self._at_most = at_most
        self._due: dict[Row, timedelta] = {}
        # Kept until a row is forgotten; what was left aside last stands last.
        self._left: dict[Row, _Left] = {}

    def __contains__(self, row: Row) -> bool:
        return row in self._due

    def __len__(self) -> int:
        return len(self._due)

    def was_busy(self, row: Row) -> bool:
        """Whether it was locked, the last time it was tried."""
        return row in self._left and not self._left[row].failed

    def has_failed(self, row: Row) -> bool:
        """Whether it has failed, the last time it was tried."""
        return row in self._left and self._left[row].failed

    def leave_busy(self, row: Row, elapsed: timedelta) -> bool:
        """Leave aside what somebody else has locked.

        Returns:
            Whether that is worth a word: it has been tried for about a second.
        """
        last = self._left[row].delay if self.was_busy(row) else ZERO
        delay = min(max(_BUSY_AT_FIRST, 2 * last), _BUSY_AT_MOST)
        self._leave(row, elapsed, _Left(delay, failed=False))
        return delay == _TELLING

    def leave_failed(
        self, row: Row, elapsed: timedelta, *, at_least: timedelta = ZERO
    ) -> timedelta:
        """Leave aside what cannot be written alone; answer for how long."""
        last = self._left[row].delay if self.has_failed(row) else ZERO
        delay = min(max(self._at_first, at_least, 2 * last), self._at_most)
        self._leave(row, elapsed, _Left(delay, failed=True))
        return delay

    def take_busy(self, elapsed: timedelta, most: int | None = None) -> Sequence[Row]:
        """What is to be tried again now of what was locked.

        Then ``forget`` what could be written, and leave aside again what could not.
        """
        return self._take(elapsed, most, failed=False)

    def take_failed(self, elapsed: timedelta, most: int | None = None) -> Sequence[Row]:
        """The same of what has failed."""
        return self._take(elapsed, most, failed=True)

    def forget(self, row: Row) -> None:
        """Try a row no more."""
        self._due.pop(row, None)
        self._left.pop(row, None)

    def forget_unless(self, wanted: Callable[[Row], bool]) -> None:
        """Try those no more that are not wanted any more."""
        for row in [each for each in self._left if not wanted(each)]:
            self.forget(row)

    def forget_beyond(self, most: int) -> None:
        """Keep so many, those that were left aside last."""
        for row in list(self._left)[: max(0, len(self._left) - most)]:
            self.forget(row)

    def next(self, elapsed: timedelta) -> timedelta | None:
        """How long until something is to be tried again; None: nothing is."""
        return _wait(self._due.values(), elapsed)

    def next_busy(self, elapsed: timedelta) -> timedelta | None:
        """The same, for what was locked alone."""
        busy = [at for row, at in self._due.items() if self.was_busy(row)]
        return _wait(busy, elapsed)

    def _leave(self, row: Row, elapsed: timedelta, left: _Left) -> None:
        self.forget(row)
        self._due[row] = elapsed + left.delay
        self._left[row] = left

    def _take(
        self, elapsed: timedelta, most: int | None, *, failed: bool
    ) -> Sequence[Row]:
        taken = [
            row
            for row, at in self._due.items()
            if at <= elapsed and self._left[row].failed == failed
        ][:most]
        for row in taken:
            del self._due[row]
        return taken


class _Left(NamedTuple):
    """For how long a row was left aside last, and why."""

    delay: timedelta
    failed: bool


def _wait(due: Collection[timedelta], elapsed: timedelta) -> timedelta | None:
    return max(ZERO, min(due) - elapsed) if due else None


Answer = TypeVar("Answer")


def write_in_halves(
    rows: Sequence[Row],
    write: Callable[[Sequence[Row]], Answer],
    failed: Callable[[Row, Exception], None],
) -> list[Answer]:
    """Write a batch; if it fails, its halves, down to the rows that fail alone.

    Args:
        rows: The batch; nothing is written for an empty one.
        write: Writes some of the rows, all of them or none.
        failed: Told of each row that fails alone.

    Returns:
        The answers of the writes that succeeded, in the order of the rows.

    Raises:
        StoreUnavailableError: The store is away; some of the rows may have been
            written.
    """
    if not rows:
        return []
    try:
        return [write(rows)]
    except StoreUnavailableError:
        raise
    except Exception as error:
        if len(rows) == 1:
            failed(rows[0], error)
            return []
    middle = len(rows) // 2
    return write_in_halves(rows[:middle], write, failed) + write_in_halves(
        rows[middle:], write, failed
    )


Done = TypeVar("Done")


class Written(NamedTuple, Generic[Done]):
    """What came of writing a batch; what is in none of the three is lost.

    Attributes:
        done: What each write has answered.
        busy: The ids of the instances that another transaction had locked.
        failed: Why others failed alone, by their ids.
    """

    done: Sequence[Done]
    busy: Set[UUID]
    failed: Mapping[UUID, Exception]


def write_each(
    records: Sequence[Row],
    write: Callable[[Sequence[Row]], messages.Answer[Done]],
    *,
    id_of: Callable[[Row], UUID] = attrgetter("claim.instance_id"),
) -> Written[Done]:
    """Write what is to become of instances, each once; what fails costs only itself.

    Raises:
        StoreUnavailableError: As ``write_in_halves``.
    """
    failed: dict[UUID, Exception] = {}

    def fail(record: Row, error: Exception) -> None:
        failed[id_of(record)] = error

    answers = write_in_halves(records, write, fail)
    busy = {each for answer in answers for each in answer.busy}
    return Written([answer.done for answer in answers], busy, failed)


def each_instance_once(
    rows: Sequence[Row], claim_of: Callable[[Row], messages.Claim]
) -> Sequence[Sequence[Row]]:
    """The rows in batches, in order, so that none of these names an instance twice."""
    ids = [claim_of(row).instance_id.int for row in rows]
    if len({*ids}) == len(rows):
        return [rows] if rows else []
    batches: list[list[Row]] = []
    seen: Counter[int] = Counter()
    for id, row in zip(ids, rows, strict=True):
        if seen[id] == len(batches):
            batches.append([])
        batches[seen[id]].append(row)
        seen[id] += 1
    return batches


class RunsAside(RetryLater[Row]):
    """Writes of runs that are tried again later; what is put aside is told of.

    Args:
        clock: Measures elapsed time.
        events: Told of what is locked for long, and of what fails.
        write: What is written.
        instance_of: The instance of a row.
        at_first: As for ``RetryLater``.
        at_most: Likewise.
        tells_once: Whether what fails again is not told of.
    """

    def __init__(
        self,
        clock: StoreClock,
        events: Teller,
        write: Write,
        *,
        instance_of: Callable[[Row], TaskInstance] = attrgetter("instance"),
        at_first: timedelta = _FAILED_AT_FIRST,
        at_most: timedelta = _FAILED_AT_MOST,
        tells_once: bool = False,
    ) -> None:
        super().__init__(at_first=at_first, at_most=at_most)
        self._clock = clock
        self._events = events
        self._write = write
        self._instance_of = instance_of
        self._tells_once = tells_once

    def leave_unwritten(
        self, rows: Sequence[Row], written: Written[Done]
    ) -> Sequence[Row]:
        """Leave aside what was locked or has failed; answer the others."""
        if not (written.busy or written.failed):
            return rows
        elapsed, others = self._clock.elapsed(), []
        for row in rows:
            id = self._instance_of(row).id
            if id in written.busy:
                self._leave_locked(row, elapsed)
            elif id in written.failed:
                self._leave_unrecorded(row, elapsed, written.failed[id])
            else:
                others.append(row)
        return others

    def _leave_locked(self, row: Row, elapsed: timedelta) -> None:
        if self.leave_busy(row, elapsed):
            ids = of_instance(self._instance_of(row))
            self._events.tell(InstanceLocked(**ids, write=self._write))

    def _leave_unrecorded(self, row: Row, elapsed: timedelta, error: Exception) -> None:
        tells = not (self._tells_once and self.has_failed(row))
        delay = self.leave_failed(row, elapsed)
        if tells:
            self._events.tell(
                InstanceUnrecorded(
                    **of_instance(self._instance_of(row)),
                    write=self._write,
                    retry_in=delay,
                    error=shown(error),
                    exception=error,
                )
            )
