"""Definitions, instances and types as lines for people to read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from go_scheduler.cli.output import at
from go_scheduler.formatting import write_duration
from go_scheduler.triggers.base import Trigger
from go_scheduler.triggers.trigger_timeouts import describe_with_zone

if TYPE_CHECKING:
    from go_scheduler.http.bodies.jobs import TypeAnswer
    from go_scheduler.models import Stage, TaskDefinition, TaskInstance, TaskRun

_WIDTH = 16
_POLICIES = (
    *("expire_after", "timeout", "start_timeout", "heartbeat_timeout", "retry"),
    *("catch_up", "jitter", "overlap", "lock", "max_per_node", "max_queue"),
)


def described(trigger: Trigger) -> str:
    """A trigger in words; a user's trigger may fail or hang."""
    try:
        return describe_with_zone(trigger)
    except Exception as error:
        return f"a trigger that does not say when: {error}"


def text_of(value: object) -> str | None:
    """The value of a field as text; None stays None."""
    if isinstance(value, Trigger):
        return described(value)
    if isinstance(value, datetime):
        return at(value)
    if isinstance(value, timedelta):
        return write_duration(value)
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False)
    return None if value is None else str(value)


def definition_lines(definition: TaskDefinition) -> Sequence[str]:
    """The lines of a definition, without empty fields."""
    return _lines(
        {
            "definition": definition.id,
            "name": definition.name,
            "runs": definition.trigger,
            "state": definition.state.value,
            "next fire time": definition.next_fire_time,
            "paused since": definition.paused_at,
            "note": definition.note,
            "completed at": definition.completed_at,
            "queue": definition.queue,
            "priority": definition.priority,
            "owner": definition.owner,
            "metadata": definition.metadata or None,
            **_policies_of(definition),
            "revision": definition.revision,
        }
    )


def _policies_of(of: TaskDefinition | TypeAnswer) -> Mapping[str, object]:
    found = {each.replace("_", " "): getattr(of, each, None) for each in _POLICIES}
    return {**found, "when full": of.max_queue and of.when_full}


def standing(instance: TaskInstance) -> str:
    """The state of an instance, and the stage of its run on a bus."""
    stage = _stage(instance)
    return instance.state.value + ("" if stage is None else f" ({stage.value})")


def instance_lines(instance: TaskInstance, runs: Sequence[TaskRun]) -> Sequence[str]:
    """The lines of an instance and of its failed runs."""
    skipped = instance.skipped
    lines = _lines(
        {
            "instance": instance.id,
            "name": instance.definition.name,
            "definition": instance.definition.id,
            "state": instance.state.value,
            "fire time": instance.fire_time,
            "executes at": instance.execute_at,
            "due at": instance.due_at,
            "queue": instance.definition.queue,
            "runs": instance.runs,
            "attempt": instance.attempt,
            "node": instance.claimed_by,
            "worker": instance.worker,
            "stage": _stage(instance),
            "started at": instance.started_at,
            "completed at": instance.completed_at,
            "payload": instance.payload or None,
            "progress": _json(instance.progress),
            "result": _json(instance.result),
            "key": instance.key,
            "waits": "for another instance to end" if instance.parked else None,
            "cancel": "requested" if instance.cancel_requested else None,
            "skipped": None
            if skipped is None
            else f"{skipped.count}, {at(skipped.first)} to {at(skipped.last)}:"
            f" {skipped.reason}",
            "error": instance.error,
        }
    )
    ended = [
        f"run {each.attempt} {each.outcome.value} at {at(each.ended_at)}"
        for each in runs
    ]
    return [*lines, *ended]


def type_lines(type: TypeAnswer) -> Sequence[str]:
    """The lines of a type of jobs, without empty fields."""
    retry = type.retry
    return _lines(
        {
            "type": type.type,
            "description": type.description or None,
            "runs": runs_where(type),
            "queue": type.queue,
            "priority": type.priority,
            "definition": type.definition_id,
            "owner": type.owner,
            "paused": "yes" if type.paused else None,
            **_policies_of(type),
            "retry": None if retry is None else retry.policy("retry"),
            "schema": type.payload_schema or None,
            "revision": type.revision,
        }
    )


def runs_where(type: TypeAnswer) -> str:
    """Who runs the jobs of a type."""
    if type.over_bus:
        return "by workers on a bus"
    return "by the server" if type.runs_here else "by workers"


def _lines(given: Mapping[str, object]) -> Sequence[str]:
    texts = {name: text_of(value) for name, value in given.items()}
    return [
        f"{name:{_WIDTH}}{_indented(text)}"
        for name, text in texts.items()
        if text is not None
    ]


def _indented(text: str) -> str:
    return text.rstrip().replace("\n", "\n" + " " * _WIDTH)


def _json(value: object) -> str | None:
    """A JSON value, which may be a text, zero or empty."""
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _stage(instance: TaskInstance) -> Stage | None:
    """The stage of a run on a bus; None after its end."""
    return None if instance.completed_at else instance.stage
