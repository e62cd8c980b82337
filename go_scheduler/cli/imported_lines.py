"""Lines of JSON, each a definition or a job, put into a store in batches."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from go_scheduler.client.job import Job
from go_scheduler.clock import SystemClock
from go_scheduler.errors import ConfigurationError, GoSchedulerError, StoreError
from go_scheduler.http.bodies.body import Body, Instant, Name, Object, Seconds
from go_scheduler.http.bodies.definitions import DefinitionPut
from go_scheduler.http.problems import Problem, field_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from go_scheduler.cli.where import Connected
    from go_scheduler.models import TaskDefinition

_BATCH = 200
_Body = TypeVar("_Body", bound=BaseModel)


class JobLine(Body):
    """A job to be submitted."""

    type: Name
    payload: Object | None = None
    at: Instant | None = None
    delay: Seconds | None = None
    key: Name | None = None


class Imported:
    """What has become of lines.

    Attributes:
        counts: How many were definitions, jobs, or wrong.
    """

    def __init__(self, client: Connected) -> None:
        self.counts = {"definitions": 0, "jobs": 0, "wrong": 0}
        self._client = client
        self._definitions: list[tuple[int, TaskDefinition]] = []
        self._jobs: dict[str, list[tuple[int, Job]]] = {}
        self._now = SystemClock().now()

    def take(self, lines: Iterable[bytes]) -> Iterator[str]:
        """Put in what is on each line; answer what is wrong, by the line."""
        for number, each in enumerate(lines, 1):
            if each.strip():
                try:
                    self._read(number, each)
                except ConfigurationError as error:
                    yield self._wrong(number, error)
            if len(self._definitions) >= _BATCH:
                yield from self._put_definitions()
            for name in [n for n, jobs in self._jobs.items() if len(jobs) >= _BATCH]:
                yield from self._put_jobs(name)
        yield from self._put_definitions()
        for name in [*self._jobs]:
            yield from self._put_jobs(name)

    def _read(self, number: int, text: bytes) -> None:
        try:
            line: Any = json.loads(text)
        except (ValueError, RecursionError):
            line = None
        if not isinstance(line, dict) or ("trigger" in line) == ("type" in line):
            raise ConfigurationError(
                "it must be a JSON object with a trigger, for a definition, or with a"
                " type, for a job"
            )
        if "trigger" in line:
            body = _body(DefinitionPut, line)
            self._definitions.append((number, _definition(body, self._now)))
        else:
            job = _body(JobLine, line)
            if job.at is not None and job.delay is not None:
                raise ConfigurationError("say when by at or by delay, not by both")
            made = Job(payload=job.payload, at=job.at, delay=job.delay, key=job.key)
            self._jobs.setdefault(job.type, []).append((number, made))

    def _put_definitions(self) -> Iterator[str]:
        batch, self._definitions = self._definitions, []
        # What is odd about a trigger is for those to know who write one.
        with warnings.catch_warnings(action="ignore"):
            yield from self._put(batch, self._client.schedule_all, "definitions")

    def _put_jobs(self, name: str) -> Iterator[str]:
        batch = self._jobs.pop(name)
        yield from self._put(
            batch, lambda jobs: self._client.enqueue_all(name, jobs), "jobs"
        )

    def _put(
        self,
        batch: Sequence[tuple[int, Any]],
        put: Callable[[Sequence[Any]], object],
        kind: str,
    ) -> Iterator[str]:
        """Put in what can be: if not all together, one after the other."""
        if not batch:
            return
        try:
            put([each for _, each in batch])
        except StoreError:
            raise
        except GoSchedulerError as error:
            if len(batch) == 1:
                yield self._wrong(batch[0][0], error)
                return
            for each in batch:
                yield from self._put([each], put, kind)
        else:
            self.counts[kind] += len(batch)

    def _wrong(self, number: int, error: Exception) -> str:
        self.counts["wrong"] += 1
        return f"line {number}: {error}"


def _body(kind: type[_Body], line: object) -> _Body:
    try:
        return kind.model_validate(line)
    except ValidationError as error:
        told = [
            f"{found['field']}: {found['detail']}"
            if found["field"]
            else found["detail"]
            for each in error.errors()
            for found in field_errors({**each, "loc": ("line", *each["loc"])})
        ]
        raise ConfigurationError("; ".join(told)) from None


def _definition(body: DefinitionPut, now: datetime) -> TaskDefinition:
    try:
        return body.definition(now, revision=body.revision)
    except Problem as problem:
        raise ConfigurationError(problem.detail) from None
