"""What a server answers, as values of this package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from go_scheduler.http.bodies.body import if_given
from go_scheduler.http.bodies.definitions import DefinitionAnswer
from go_scheduler.http.bodies.explanations import PreviewedAnswer, WhyAnswer
from go_scheduler.http.bodies.instances import (
    InstanceAnswer,
    RunAnswer,
    SkippedAnswer,
)
from go_scheduler.http.bodies.system import NodeAnswer, StatsAnswer
from go_scheduler.models import (
    Counted,
    NodeInfo,
    State,
    TaskDefinition,
    TaskInstance,
    TaskRun,
)
from go_scheduler.models.instance import Skipped
from go_scheduler.policies import RetryPolicy
from go_scheduler.triggers import OnDemandTrigger, PreviewedTime, load_trigger
from go_scheduler.why.answer import Why

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID


def definition_of(answer: Any) -> TaskDefinition:
    """A definition."""
    body = DefinitionAnswer.model_validate(answer)
    return TaskDefinition(
        trigger=load_trigger(body.trigger.kind, body.trigger.state),
        id=body.id,
        name=body.name,
        queue=body.queue,
        priority=body.priority,
        metadata=body.metadata,
        expire_after=body.expire_after,
        timeout=body.timeout,
        start_timeout=body.start_timeout,
        heartbeat_timeout=body.heartbeat_timeout,
        retry=if_given(body.retry, lambda it: it.policy("retry")),
        catch_up=if_given(body.catch_up, lambda it: it.policy("catch_up")),
        jitter=body.jitter,
        overlap=body.overlap,
        lock=body.lock,
        max_per_node=body.max_per_node,
        max_queue=body.max_queue,
        when_full=body.when_full,
        owner=body.owner,
        next_fire_time=body.next_fire_time,
        paused=body.paused,
        note=body.note,
        paused_at=body.paused_at,
        completed_at=body.completed_at,
        revision=body.revision,
    )


def instance_of(answer: Any) -> TaskInstance:
    """An instance; of its definition it has what the answer has."""
    return _instance(InstanceAnswer.model_validate(answer))


def run_of(answer: Any, instance_id: UUID) -> TaskRun:
    """A run that did not end its instance well."""
    body = RunAnswer.model_validate(answer)
    return TaskRun(instance_id=instance_id, **dict(body))


def node_of(answer: Any) -> NodeInfo:
    """A node."""
    return _node(NodeAnswer.model_validate(answer))


def counts_of(answer: Any) -> Mapping[State, Counted]:
    """How many instances are in each state."""
    body = StatsAnswer.model_validate(answer)
    return {
        state: Counted(count=count, more=state in body.more)
        for state, count in body.instances.items()
    }


def why_of(answer: Any) -> Why:
    """Why something happens or does not."""
    body = WhyAnswer.model_validate(answer)
    return Why(
        definition_id=body.definition_id,
        at=body.at,
        because=body.because,
        text=body.text,
        instance=if_given(body.instance, _instance),
        node=if_given(body.node, _node),
        holder=if_given(body.holder, _instance),
        since=body.since,
        until=body.until,
        reason=body.reason,
        nearest=tuple(map(_previewed, body.nearest)),
    )


def _instance(body: InstanceAnswer) -> TaskInstance:
    most = body.max_attempts
    definition = TaskDefinition(
        trigger=OnDemandTrigger(),
        id=body.definition_id,
        name=body.name,
        queue=body.queue,
        metadata=body.metadata,
        retry=if_given(most, lambda it: RetryPolicy(max_attempts=it)),
    )
    known = TaskInstance.__dataclass_fields__.keys() & type(body).model_fields.keys()
    found = {name: getattr(body, name) for name in known}
    found["skipped"] = if_given(body.skipped, _skipped)
    return TaskInstance(definition=definition, **found)


def _skipped(body: SkippedAnswer) -> Skipped:
    return Skipped(**dict(body))


def _node(body: NodeAnswer) -> NodeInfo:
    found = dict(body) | {
        "queues": if_given(body.queues, tuple),
        "names": if_given(body.names, tuple),
    }
    return NodeInfo(**found)


def _previewed(body: PreviewedAnswer) -> PreviewedTime:
    local = type(body.at).fromisoformat(body.local)
    return PreviewedTime(at=local, effect=body.effect)
