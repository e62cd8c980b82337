"""What workers report of their runs, on its way to the store, many in one write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from go_scheduler.errors import ConfigurationError, StoreError
from go_scheduler.http.work.gathered import Gathered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor
    from datetime import timedelta
    from uuid import UUID

    from go_scheduler.client import Client
    from go_scheduler.json import JSON
    from go_scheduler.models import Extension

_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A run that goes on, and for how long it is kept."""

    instance_id: UUID
    attempt: int
    by: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A run that has succeeded, and with what."""

    instance_id: UUID
    attempt: int
    result: JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A run that has not, and what the worker wishes to follow."""

    instance_id: UUID
    attempt: int
    error: str
    retry: bool
    retry_in: timedelta | None


class Reported:
    """Has what workers report written, each kind apart from the others.

    Args:
        client: Writes.
        threads: Where it does.
    """

    def __init__(self, client: Client, threads: Executor) -> None:
        self._client = client
        self.keep = Gathered[Kept, "Extension"](_each(self._keep), threads)
        self.complete = Gathered[Completed, bool](_each(self._complete), threads)
        self.fail = Gathered[Failed, bool](_each(self._fail), threads)

    async def close(self) -> None:
        """Wait until all is written."""
        for each in (self.keep, self.complete, self.fail):
            await each.close()

    def _keep(self, run: Kept) -> Extension:
        return self._client.extend(run.instance_id, run.attempt, run.by)

    def _complete(self, run: Completed) -> bool:
        return self._client.complete(run.instance_id, run.attempt)

    def _fail(self, run: Failed) -> bool:
        return self._client.fail(
            run.instance_id,
            run.attempt,
            run.error,
            retry=run.retry,
            retry_in=run.retry_in,
        )


def _each(
    call: Callable[[_Asked], _Answer],
) -> Callable[[Sequence[_Asked]], Sequence[_Answer | Exception]]:
    def write(asked: Sequence[_Asked]) -> Sequence[_Answer | Exception]:
        answers: list[_Answer | Exception] = []
        for one in asked:
            try:
                answers.append(call(one))
            except (StoreError, ConfigurationError) as error:
                answers.append(error)
        return answers

    return write
