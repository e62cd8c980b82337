"""What commands print as JSON: the same as the bodies over HTTP."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import TYPE_CHECKING

from go_scheduler.triggers.stored import dump_trigger

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from go_scheduler.json import JSON
    from go_scheduler.models import NodeInfo, TaskDefinition, TaskInstance
    from go_scheduler.policies import CatchUp, RetryPolicy
    from go_scheduler.triggers.previews import PreviewedTime
    from go_scheduler.why.answer import Why


def definition_document(definition: TaskDefinition) -> Mapping[str, JSON]:
    """A definition."""
    kind, state = dump_trigger(definition.trigger)
    return {
        "id": str(definition.id),
        "name": definition.name,
        "queue": definition.queue,
        "priority": definition.priority,
        "trigger": {"kind": kind, "state": state},
        "metadata": definition.metadata,
        "expire_after": _seconds(definition.expire_after),
        "timeout": _seconds(definition.timeout),
        "retry": _retry(definition.retry),
        "catch_up": _catch_up(definition.catch_up),
        "jitter": _seconds(definition.jitter),
        "overlap": definition.overlap.value,
        "lock": definition.lock,
        "paused": definition.paused,
        "note": definition.note,
        "state": definition.state.value,
        "next_fire_time": _time(definition.next_fire_time),
        "paused_at": _time(definition.paused_at),
        "completed_at": _time(definition.completed_at),
        "owner": definition.owner,
        "revision": definition.revision,
        "recurring": definition.recurring,
        "description": definition.trigger.describe(),
    }


def instance_document(instance: TaskInstance) -> Mapping[str, JSON]:
    """An instance."""
    skipped = instance.skipped
    return {
        "id": str(instance.id),
        "definition_id": str(instance.definition.id),
        "name": instance.definition.name,
        "queue": instance.definition.queue,
        "state": instance.state.value,
        "fire_time": _time(instance.fire_time),
        "execute_at": _time(instance.execute_at),
        "due_at": _time(instance.due_at),
        "attempt": instance.attempt,
        "runs": instance.runs,
        "payload": instance.payload,
        "metadata": instance.metadata,
        "key": instance.key,
        "claimed_by": _text(instance.claimed_by),
        "started_at": _time(instance.started_at),
        "completed_at": _time(instance.completed_at),
        "outcome": None if instance.outcome is None else instance.outcome.value,
        "error": instance.error,
        "skipped": None
        if skipped is None
        else {
            "first": _time(skipped.first),
            "last": _time(skipped.last),
            "count": skipped.count,
            "reason": skipped.reason,
        },
        "cancel_requested": instance.cancel_requested,
        "parked": instance.parked,
    }


def node_document(node: NodeInfo) -> Mapping[str, JSON]:
    """A node."""
    return {
        "id": str(node.id),
        "host": node.host,
        "pid": node.pid,
        "version": node.version,
        "queues": node.queues,
        "names": node.names,
        "since": _time(node.since),
        "seen_at": _time(node.seen_at),
        "stopping": node.stopping,
        "alive": node.alive,
    }


def why_document(why: Why) -> Mapping[str, JSON]:
    """Why something happens or does not."""
    return {
        "definition_id": str(why.definition_id),
        "at": _time(why.at),
        "because": why.because.value,
        "text": why.text,
        "instance": None if why.instance is None else instance_document(why.instance),
        "node": None if why.node is None else node_document(why.node),
        "holder": None if why.holder is None else instance_document(why.holder),
        "since": _time(why.since),
        "until": _time(why.until),
        "reason": why.reason,
        "nearest": [previewed_document(each) for each in why.nearest],
    }


def previewed_document(time: PreviewedTime) -> Mapping[str, JSON]:
    """A fire time of a preview, in the schedule's own zone."""
    return {"at": time.at.isoformat(), "effect": time.effect}


def _retry(policy: RetryPolicy | None) -> JSON:
    if policy is None:
        return None
    jitter = policy.jitter
    return {
        "max_attempts": policy.max_attempts,
        "delay": _seconds(policy.delay),
        "factor": policy.factor,
        "max_delay": _seconds(policy.max_delay),
        "jitter": jitter.total_seconds() if isinstance(jitter, timedelta) else jitter,
    }


def _catch_up(policy: CatchUp | None) -> JSON:
    if policy is None:
        return None
    return {
        "mode": policy.mode,
        "grace": _seconds(policy.grace),
        "within": _seconds(policy.within),
        "drop_after": _seconds(policy.drop_after),
    }


def _time(at: datetime | None) -> str | None:
    if at is None:
        return None
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _seconds(length: timedelta | None) -> float | None:
    return None if length is None else length.total_seconds()


def _text(value: object) -> str | None:
    return None if value is None else str(value)
