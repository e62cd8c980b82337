"""Definitions, instances and types as lines for people to read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from go_scheduler.cli.output import at
from go_scheduler.formatting import write_duration
from go_scheduler.triggers.trigger_timeouts import describe_with_zone

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from go_scheduler.http.bodies.jobs import TypeAnswer
    from go_scheduler.models import Stage, TaskDefinition, TaskInstance, TaskRun
    from go_scheduler.triggers import Trigger

_WIDTH = 16


def described(trigger: Trigger) -> str:
    """A trigger in words; a user's trigger may fail or hang."""
    try:
        return describe_with_zone(trigger)
    except Exception as error:
        return f"a trigger that does not say when: {error}"


def definition_lines(definition: TaskDefinition) -> Sequence[str]:
    """The lines of a definition, without empty fields."""
    return _lines(
        {
            "definition": str(definition.id),
            "name": definition.name,
            "runs": described(definition.trigger),
            "state": definition.state.value,
            "next fire time": _time(definition.next_fire_time),
            "paused since": _time(definition.paused_at),
            "note": definition.note,
            "completed at": _time(definition.completed_at),
            "queue": definition.queue,
            "priority": str(definition.priority),
            "owner": definition.owner,
            "metadata": _json(definition.metadata),
            "expire after": _length(definition.expire_after),
            "timeout": _length(definition.timeout),
            "start timeout": _length(definition.start_timeout),
            "heartbeat timeout": _length(definition.heartbeat_timeout),
            "retry": _shown(definition.retry),
            "catch up": _shown(definition.catch_up),
            "jitter": _length(definition.jitter),
            "overlap": definition.overlap.value,
            "lock": definition.lock,
            "max per node": _shown(definition.max_per_node),
            "max queue": _shown(definition.max_queue),
            "when full": _shown(definition.max_queue and definition.when_full),
            "revision": _shown(definition.revision),
        }
    )


def standing(instance: TaskInstance) -> str:
    """The state of an instance, and the stage of its run on a bus."""
    stage = _stage(instance)
    return instance.state.value + ("" if stage is None else f" ({stage.value})")


def instance_lines(instance: TaskInstance, runs: Sequence[TaskRun]) -> Sequence[str]:
    """The lines of an instance and of its failed runs."""
    skipped = instance.skipped
    lines = _lines(
        {
            "instance": str(instance.id),
            "name": instance.definition.name,
            "definition": str(instance.definition.id),
            "state": instance.state.value,
            "fire time": _time(instance.fire_time),
            "executes at": _time(instance.execute_at),
            "due at": _time(instance.due_at),
            "queue": instance.definition.queue,
            "runs": str(instance.runs),
            "attempt": str(instance.attempt),
            "node": _shown(instance.claimed_by),
            "worker": instance.worker,
            "stage": _shown(_stage(instance)),
            "started at": _time(instance.started_at),
            "completed at": _time(instance.completed_at),
            "payload": _json(instance.payload),
            "progress": _value(instance.progress),
            "result": _value(instance.result),
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
            "priority": str(type.priority),
            "definition": str(type.definition_id),
            "owner": type.owner,
            "paused": "yes" if type.paused else None,
            "expire after": _length(type.expire_after),
            "timeout": _length(type.timeout),
            "start timeout": _length(type.start_timeout),
            "heartbeat timeout": _length(type.heartbeat_timeout),
            "retry": None if retry is None else str(retry.policy("retry")),
            "overlap": type.overlap.value,
            "lock": type.lock,
            "max queue": _shown(type.max_queue),
            "when full": _shown(type.max_queue and type.when_full),
            "schema": _json(type.payload_schema),
            "revision": _shown(type.revision),
        }
    )


def runs_where(type: TypeAnswer) -> str:
    """Who runs the jobs of a type."""
    if type.over_bus:
        return "by workers on a bus"
    return "by the server" if type.runs_here else "by workers"


def _lines(given: Mapping[str, str | None]) -> Sequence[str]:
    return [
        f"{name:{_WIDTH}}{_indented(text)}"
        for name, text in given.items()
        if text is not None
    ]


def _indented(text: str) -> str:
    return text.rstrip().replace("\n", "\n" + " " * _WIDTH)


def _time(instant: datetime | None) -> str | None:
    return None if instant is None else at(instant)


def _length(length: timedelta | None) -> str | None:
    return None if length is None else write_duration(length)


def _json(value: object) -> str | None:
    return json.dumps(value, ensure_ascii=False) if value else None


def _value(value: object) -> str | None:
    """A JSON value, which may be zero or empty."""
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _stage(instance: TaskInstance) -> Stage | None:
    """The stage of a run on a bus; None after its end."""
    return None if instance.completed_at else instance.stage


def _shown(value: object) -> str | None:
    return None if value is None else str(value)
