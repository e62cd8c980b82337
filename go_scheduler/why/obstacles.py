"""Why no node would take anything of a definition."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from go_scheduler.why.facts import Facts


def but_nobody_would(facts: Facts) -> str:
    """What is wrong already, for something that is due later."""
    found = obstacle(facts)
    return "" if found is None else f" But {found}."


def obstacle(facts: Facts) -> str | None:
    """Why no node would take anything of the definition; None: one would."""
    queue, name = facts.definition.queue, facts.definition.name
    served = [each for each in facts.takers if each.serves(queue)]
    if not facts.takers:
        return "no node is alive that takes anything: start a scheduler"
    if not served:
        return f"no living node serves the queue {queue!r}{_served_last(facts, queue)}"
    if not any(each.knows(name) for each in served):
        handler = "definitions without a name" if name is None else f"the name {name!r}"
        return f"no living node that serves its queue has a handler for {handler}"
    return None


def _served_last(facts: Facts, queue: str) -> str:
    """Which node served a queue last, as far back as that is known."""
    gone = [each for each in facts.nodes if each.queues and queue in each.queues]
    if not gone:
        return ", nor has one within the last hour"
    last = max(gone, key=lambda each: each.seen_at)
    return f"; the last was {last}, seen at {facts.times(last.seen_at)}"
