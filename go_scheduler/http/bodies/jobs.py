"""Bodies of jobs and of their types."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal, Self
from uuid import UUID

from pydantic import ConfigDict, Field, model_validator
from pydantic.config import JsonDict

from go_scheduler.checks import check_name
from go_scheduler.errors import ConfigurationError
from go_scheduler.handlers.job_types import MARK, JobType
from go_scheduler.handlers.registry import task_id
from go_scheduler.handlers.schema import Schema
from go_scheduler.http.bodies.body import (
    Answer,
    Instant,
    Name,
    Object,
    PageOf,
    Query,
    Seconds,
    SecondsCount,
    filled,
    if_given,
    of_field,
)
from go_scheduler.http.bodies.definitions import (
    JitterSpan,
    RetryBody,
    RunSettings,
    Settings,
)
from go_scheduler.http.problems import invalid
from go_scheduler.json import JSON, NOTHING, check_text, freeze
from go_scheduler.models import METADATA_LIMIT, OVERRIDABLE, State, TaskDefinition
from go_scheduler.policies import Overlap
from go_scheduler.triggers import OnDemandTrigger

_JOB: JsonDict = {"type": "resize", "payload": {"picture": "cat.png"}, "key": "cat"}
_TYPE: JsonDict = {
    "queue": "pictures",
    "retry": {"max_attempts": 5, "delay": 10},
    "schema": {"properties": {"picture": {"type": "string"}}, "required": ["picture"]},
}
_LONGEST_IMPORT = 180
_MOST_LINES = 10**12


def check_type_name(name: str) -> None:
    """Refuse an invalid name of a type.

    Raises:
        Problem: 422.
    """
    try:
        check_name("type", name)
    except ConfigurationError as error:
        raise invalid("type", str(error)) from None


def said_of(definition: TaskDefinition) -> Mapping[str, JSON]:
    """The description and schema of a declared type."""
    said = definition.metadata.get(MARK)
    return said if isinstance(said, dict) else NOTHING


class JobBody(RunSettings):
    """A job: its type, its payload, and its time.

    Settings that are left out are those of the type, as they are when it runs.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [_JOB]})

    type: Name
    payload: Object | None = Field(None, description="At most 64 KiB.")
    at: Instant | None = Field(None, description="null: as soon as possible.")
    delay: Seconds | None = Field(None, description="Instead of `at`.")
    key: Name | None = Field(
        None, description="While a job of the type has this key, no second job is made."
    )
    jitter: JitterSpan = None
    queue: Name | None = None
    priority: int | None = Field(None, json_schema_extra={"minimum": 0, "maximum": 3})
    retry: RetryBody | None = None
    metadata: Object | None = Field(None, description="At most 64 KiB.")

    def settings(self) -> dict[str, Any]:
        """The settings that it has of its own.

        Raises:
            Problem: 422, a policy is wrong.
        """
        said = {name: getattr(self, name) for name in OVERRIDABLE}
        said["retry"] = if_given(self.retry, lambda it: it.policy("retry"))
        return {name: value for name, value in said.items() if value is not None}


class SubmittedAnswer(Answer):
    """The instance of a job."""

    instance_id: UUID
    definition_id: UUID
    state: State = Field(description="skipped: the job was dropped.")


class ImportQuery(Query):
    """The parameters of an import."""

    import_: str | None = Field(
        None,
        alias="import",
        min_length=1,
        max_length=_LONGEST_IMPORT,
        description="A name for the import. An import that is repeated with the same"
        " name makes no line twice. null: the server makes up a name, and answers it.",
    )
    first: int = Field(
        1,
        ge=1,
        le=_MOST_LINES,
        description="The number of the first line, if an import comes in parts.",
    )
    start: Instant | None = Field(None, description="null: the present time.")
    window: SecondsCount | None = Field(
        None, description="Over how many seconds the jobs are staggered evenly."
    )
    interval: SecondsCount | None = Field(
        None, description="The seconds between a job and the next one."
    )
    jitter: SecondsCount | None = Field(
        None, description="The longest random delay of each job, in seconds."
    )
    on_error: Literal["stop", "skip"] = Field(
        "stop",
        description="Whether the lines after a refused line are left out, or go on.",
    )

    @model_validator(mode="before")
    @classmethod
    def _take_by_name(cls, value: object) -> object:
        """Accept the field's name, which older versions of FastAPI use."""
        return (
            {"import" if name == "import_" else name: value[name] for name in value}
            if isinstance(value, dict)
            else value
        )

    def seconds(self, name: str) -> timedelta | None:
        """One of its durations."""
        return if_given(getattr(self, name), lambda it: timedelta(seconds=it))

    def check(self) -> None:
        """Refuse parameters that contradict each other.

        Raises:
            Problem: 422.
        """
        if self.import_ is not None:
            with of_field("import"):
                check_text(self.import_, "import")
        if self.window is not None and self.interval is not None:
            raise invalid("interval", "say window or interval, not both")


class TypeBody(Settings):
    """A type of jobs for workers."""

    model_config = ConfigDict(json_schema_extra={"examples": [_TYPE]})

    description: str = Field("", max_length=10_000)
    payload_schema: Object | None = Field(
        None,
        alias="schema",
        description="A JSON schema (2020-12) for the payload, checked when a job is"
        " submitted; null: any object.",
    )

    def definition(self, name: str) -> TaskDefinition:
        """The definition of the type.

        Raises:
            Problem: 422.
        """
        said: dict[str, Any] = {"description": self.description}
        check_type_name(name)
        with of_field("schema"):
            if self.payload_schema is not None:
                schema = Schema(self.payload_schema, patterns=False)
                said["schema"] = schema.value
            metadata = freeze({MARK: said}, name="schema", limit=METADATA_LIMIT)
        settings = self.settings()
        with of_field("", tuple(type(self).model_fields)):
            return TaskDefinition(
                id=task_id(name),
                name=name,
                trigger=OnDemandTrigger(),
                metadata=metadata,
                **settings,
            )


class TypeAnswer(Answer):
    """A type of jobs."""

    type: str
    description: str
    payload_schema: Object | None = Field(alias="schema")
    runs_here: bool = Field(
        description="Whether the server itself, or a worker on its bus, runs it."
    )
    over_bus: bool = Field(False, description="Whether workers on its bus run it.")
    definition_id: UUID
    queue: str
    priority: int
    retry: RetryBody | None
    timeout: Seconds | None
    start_timeout: Seconds | None
    heartbeat_timeout: Seconds | None
    expire_after: Seconds | None
    overlap: Overlap
    lock: str | None
    max_queue: int | None
    when_full: Literal["refuse", "drop"]
    paused: bool
    owner: str | None
    revision: int | None

    @classmethod
    def of(cls, definition: TaskDefinition, job_type: JobType | None = None) -> Self:
        """The answer for a definition, and for the server's own type if it is one."""
        said = said_of(definition)
        schema, described = said.get("schema"), said.get("description")
        if job_type is not None:
            schema, described = job_type.schema, job_type.description
        return filled(
            cls,
            definition,
            type=definition.name or "",
            description=described if isinstance(described, str) else "",
            payload_schema=dict(schema) if isinstance(schema, Mapping) else None,
            runs_here=job_type is not None,
            over_bus=job_type is not None and job_type.over_bus,
            definition_id=definition.id,
            retry=if_given(definition.retry, RetryBody.of),
        )


class TypesAnswer(PageOf[TypeAnswer]):
    """A page of types."""
