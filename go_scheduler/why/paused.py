"""What there is to say of a pause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.why.answer import Because, Why
from go_scheduler.why.instance_words import before, time_of

if TYPE_CHECKING:
    from go_scheduler.models import TaskInstance
    from go_scheduler.why.facts import Facts


def paused(facts: Facts, instance: TaskInstance | None) -> Why:
    """That nothing starts, as the definition is paused."""
    note, since = facts.definition.note, facts.definition.paused_at
    text = (
        f"It is paused since {time_of(facts, since)}"
        f" ({note or 'there is no note'}), so that nothing of it starts until it is"
        " resumed."
    )
    text += _after_pause(facts) if instance is None else before(instance)
    return Why(
        definition_id=facts.definition.id,
        at=facts.at,
        because=Because.PAUSED,
        text=text,
        instance=instance,
        since=since,
        reason=note,
    )


def _after_pause(facts: Facts) -> str:
    """What a definition would do if it were resumed."""
    following = facts.definition.next_fire_time
    if following is None:
        return ""
    if following > facts.now:
        return f" Its next fire time is {facts.times(following)}."
    return (
        f" Its fire times since {facts.times(following)} are missed; once it is"
        " resumed, its catch_up decides what becomes of them."
    )


def frozen(facts: Facts, instance: TaskInstance) -> str:
    """Which instance waits for the end of a pause."""
    due = facts.times(instance.due_at)
    return f"Instance {instance.id}, due at {due}, waits for that.{before(instance)}"
