"""Which topics a worker takes runs from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from go_scheduler.checks import check_name, check_type
from go_scheduler.errors import ConfigurationError
from go_scheduler.handlers.registry import HandlerRegistry
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.dispatch.topics import Topics


def served_topics(
    topics: Topics,
    queues: Sequence[str],
    handler: object,
    topic_per_task: bool | Collection[str],
) -> Mapping[str, str | None]:
    """The topics of some queues, each with the task whose own topic it is, or None.

    Args:
        topics: How they are named.
        queues: Of which queues.
        handler: What is called; a registry knows no other tasks than its own.
        topic_per_task: Which tasks have topics of their own; true: all do.

    Raises:
        ConfigurationError: They are no names, nobody says which tasks there are, or a
            topic's name is too long.
    """
    known = handler.names if isinstance(handler, HandlerRegistry) else None
    own = _own(topic_per_task, known)
    shared = known is None or not set(known) <= set(own)
    found: dict[str, str | None] = {}
    for queue in queues:
        if shared:
            found[topics.runs(queue)] = None
        found.update({topics.runs(queue, task): task for task in own})
    if not found:
        raise ConfigurationError("the registry has no handlers: there is nothing to do")
    return found


def _own(
    topic_per_task: bool | Collection[str], known: Sequence[str] | None
) -> Sequence[str]:
    if topic_per_task is True:
        if known is None:
            raise ConfigurationError(
                "topic_per_task must name the tasks: only a HandlerRegistry says"
                " itself which it has"
            )
        return known
    if topic_per_task is False:
        return ()
    if isinstance(topic_per_task, str) or not isinstance(topic_per_task, Collection):
        raise ConfigurationError(
            "topic_per_task must be True, False or names of tasks, not"
            f" {shown(topic_per_task)}"
        )
    names = sorted({check_name("topic_per_task", each) for each in topic_per_task})
    return [each for each in names if known is None or each in known]


def unserved_texts(
    queues: Sequence[str], handler: object, topic_per_task: bool | Collection[str]
) -> Sequence[str]:
    """What of queues and names looks mistyped, as the registry has nothing for it."""
    if not isinstance(handler, HandlerRegistry):
        return ()
    named = () if isinstance(topic_per_task, bool) else sorted(set(topic_per_task))
    found = [
        f"topic_per_task: no handler is registered as {shown(each)}, but"
        f" {', '.join(handler.names)}: its topic is not heard"
        for each in named
        if each not in handler
    ]
    tasks = handler.tasks
    # What is registered without a task may be in any queue.
    if tasks.keys() >= set(handler.names):
        known = {each.definition.queue for each in tasks.values()}
        found += [
            f"queues: none of the tasks {', '.join(handler.names)} is in"
            f" {shown(each)}, but in {', '.join(sorted(known))}"
            for each in queues
            if each not in known
        ]
    return found


def checked_limits(limits: object, handler: object) -> Mapping[str, int]:
    """Limits by the names of tasks.

    Raises:
        ConfigurationError: They are none, or of a task that the registry does not have.
    """
    if limits is None:
        return {}
    if not isinstance(limits, Mapping):
        raise ConfigurationError(
            f'limits must be such as {{"resize": 2}}, not {shown(limits)}'
        )
    for task, most in limits.items():
        check_name("limits", task)
        check_type(f"limits[{task!r}]", most, int)
        if most < 1:
            raise ConfigurationError(f"limits[{task!r}] must be at least 1: {most}")
        if isinstance(handler, HandlerRegistry) and task not in handler:
            raise ConfigurationError(
                f"limits: no handler is registered as {task!r}, but"
                f" {', '.join(handler.names)}"
            )
    return dict(limits)
