"""Lines of JSON, each a definition or a job, put in part by part."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from go_scheduler.clock import SystemClock
from go_scheduler.errors import ConfigurationError, GoSchedulerError, StoreError
from go_scheduler.http.bodies.definitions import DefinitionPut
from go_scheduler.http.problems import Problem, field_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from go_scheduler.cli.where import Connected
    from go_scheduler.http.remote import Remote
    from go_scheduler.models import TaskDefinition

_LINES = 500
_BYTES = 1024 * 1024


class Imported:
    """What has become of lines.

    Args:
        client: Takes definitions.
        remote: Takes jobs, in front of the same store.
        asked: How jobs are imported, and by which name.

    Attributes:
        counts: How many were definitions, jobs, jobs that a full queue has dropped, or
            wrong.
        size: How many bytes of the lines are settled.
    """

    def __init__(
        self, client: Connected, remote: Remote, asked: Mapping[str, Any]
    ) -> None:
        self.counts = {"definitions": 0, "jobs": 0, "dropped": 0, "wrong": 0}
        self.size = 0
        self._client = client
        self._remote = remote
        self._asked = {**asked, "on_error": "skip"}
        self._definitions: list[tuple[int, TaskDefinition]] = []
        self._jobs: list[bytes] = []
        self._wrong: dict[int, str] = {}
        self._now = SystemClock().now()

    def take(self, lines: Iterable[bytes]) -> Iterator[Sequence[str]]:
        """Put in what is on each line; answer what is wrong, part by part."""
        number = size = 0
        for number, each in enumerate(lines, 1):
            # A line that is no job is left empty, and the next keeps its number.
            self._jobs.append(
                each.rstrip(b"\r\n") if self._is_job(number, each) else b""
            )
            size += len(each)
            if len(self._jobs) == _LINES or size >= _BYTES:
                yield self._put(number, size)
                size = 0
        yield self._put(number, size)

    def _is_job(self, number: int, text: bytes) -> bool:
        """Whether a line is a job; a definition is kept."""
        if not text.strip():
            return False
        try:
            line = _read(text)
            if "type" in line:
                return True
            body = _body(line)
            self._definitions.append((number, _definition(body, self._now)))
        except ConfigurationError as error:
            self._wrong[number] = str(error)
        return False

    def _put(self, last: int, size: int) -> Sequence[str]:
        """Put in a part, definitions first; what is wrong with which line of it."""
        self._put_definitions(self._definitions)
        self._definitions = []
        if any(self._jobs):
            self._put_jobs(first=last - len(self._jobs) + 1)
        self._jobs = []
        self.size += size
        wrong, self._wrong = self._wrong, {}
        self.counts["wrong"] += len(wrong)
        return [f"line {number}: {wrong[number]}" for number in sorted(wrong)]

    def _put_definitions(self, batch: Sequence[tuple[int, TaskDefinition]]) -> None:
        """Put in those that can be: if not all together, one after the other."""
        if not batch:
            return
        try:
            # What is odd about a trigger is for those to know who write one.
            with warnings.catch_warnings(action="ignore"):
                self._client.schedule_all([each for _, each in batch])
        except StoreError:
            raise
        except GoSchedulerError as error:
            if len(batch) == 1:
                self._wrong[batch[0][0]] = str(error)
                return
            for each in batch:
                self._put_definitions([each])
        else:
            self.counts["definitions"] += len(batch)

    def _put_jobs(self, first: int) -> None:
        asked = {**self._asked, "first": first}
        events = self._remote.import_jobs(b"\n".join(self._jobs), asked)
        for each in events:
            if each["event"] == "started":
                # One time for all parts, however long they take.
                self._asked["start"] = each["start"]
            elif each["event"] == "refused":
                self._wrong[each["line"]] = _refusal(each)
        ended = events[-1]
        self.counts["jobs"] += ended["made"] + ended["known"]
        self.counts["dropped"] += ended["dropped"]
        if ended["event"] != "done":
            raise StoreError(ended["detail"].partition("; what was made stays")[0])


def definition_of_line(text: bytes, now: datetime) -> TaskDefinition:
    """The definition that a line is.

    Args:
        text: The line.
        now: From when on phrases count that say no date.

    Raises:
        ConfigurationError: It is none.
    """
    line = _read(text)
    if "type" in line:
        raise ConfigurationError("it is a job, and must be a definition")
    return _definition(_body(line), now)


def _read(text: bytes) -> Mapping[str, Any]:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        line = None
    if not isinstance(line, dict) or ("trigger" in line) == ("type" in line):
        raise ConfigurationError(
            "it must be a JSON object with a trigger, for a definition, or with a"
            " type, for a job"
        )
    return line


def _refusal(event: Mapping[str, Any]) -> str:
    told = [
        f"{each['field']}: {each['detail']}" if each["field"] else each["detail"]
        for each in event["errors"]
    ]
    return "; ".join(told) or str(event["detail"])


def _body(line: Mapping[str, Any]) -> DefinitionPut:
    try:
        return DefinitionPut.model_validate(line)
    except ValidationError as error:
        found = [
            told
            for each in error.errors()
            for told in field_errors({**each, "loc": ("line", *each["loc"])})
        ]
        raise ConfigurationError(_refusal({"errors": found})) from None


def _definition(body: DefinitionPut, now: Any) -> TaskDefinition:
    try:
        return body.definition(now, revision=body.revision)
    except Problem as problem:
        raise ConfigurationError(problem.detail) from None
