"""What is asked of definitions, and of the nodes that are to run them."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.doctor.kinds import (
    NAME_UNKNOWN,
    NAME_UNREGISTERED,
    NAMELESS,
    NAMELESS_UNREGISTERED,
    NEVER_AGAIN,
    NO_NODES,
    NOT_ALL_READ,
    OVERDUE,
    PAUSED,
    QUEUE_UNSERVED,
    TRIGGER_UNKNOWN,
    VERSIONS_DIFFER,
)
from go_scheduler.models import OPEN, DefinitionState
from go_scheduler.stores.findings import well
from go_scheduler.triggers.on_demand import OnDemandTrigger
from go_scheduler.triggers.stored import UnknownTrigger
from go_scheduler.why.words import length

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from go_scheduler.doctor.facts import Facts
    from go_scheduler.models import NodeInfo, TaskDefinition
    from go_scheduler.stores.findings import Finding

SHOWN = 5
"""Of more than so many only some are named."""
LATE = timedelta(minutes=1)
"""What is due for longer is told."""


def nodes(facts: Facts) -> Iterator[Finding]:
    """Which nodes live, and whether they serve what is to run."""
    living = facts.nodes
    if not living:
        yield NO_NODES.found("no node that takes on work was seen of late")
        return
    yield well("nodes", f"alive, and take on work: {len(living)}")
    versions = sorted({str(each.version) for each in living})
    if len(versions) > 1:
        yield VERSIONS_DIFFER.found(f"nodes are of version {', '.join(versions)}")
    unserved: Counter[str] = Counter()
    unknown: Counter[tuple[str, str | None]] = Counter()
    for each in facts.active:
        serving = [node for node in living if node.serves(each.queue)]
        if not serving:
            unserved[each.queue] += 1
        elif _is_unknown(each, serving):
            unknown[each.queue, each.name] += 1
    for queue, count in unserved.most_common(SHOWN):
        yield QUEUE_UNSERVED.found(
            f"no living node serves queue {queue!r}, in which {_so_many(count)}"
            f" {'runs' if count == 1 else 'run'}"
        )
    for queue in _due_elsewhere(facts) - unserved.keys():
        yield QUEUE_UNSERVED.found(
            f"no living node serves queue {queue!r}, in which something is due"
        )
    for (queue, name), count in unknown.most_common(SHOWN):
        of = f"of which there are {_so_many(count)}"
        if name is None:
            of = _nameless(facts, queue)
        yield _nobody_has(queue, name, of)
    # A one-off is no active definition any more once it has fired.
    waiting = Counter(
        (each.definition.queue, each.definition.name)
        for each in facts.waiting
        if _is_unknown(each.definition, living)
    )
    for (queue, name), count in waiting.most_common(SHOWN):
        if (queue, name) not in unknown:
            yield _nobody_has(queue, name, _so_many_wait(count))


def _is_unknown(definition: TaskDefinition, living: Sequence[NodeInfo]) -> bool:
    """Whether its queue is served, and by nobody who has a handler for it."""
    serving = [node for node in living if node.serves(definition.queue)]
    return bool(serving) and not any(node.knows(definition.name) for node in serving)


def _nobody_has(queue: str, name: str | None, of: str) -> Finding:
    lacks = f"no living node that serves queue {queue!r} has a handler for"
    if name is None:
        return NAMELESS.found(f"{lacks} definitions without a name: {of}")
    return NAME_UNKNOWN.found(f"{lacks} {name!r}, {of}")


def _due_elsewhere(facts: Facts) -> set[str]:
    """Queues in which something is due and that no node serves, whosever it is."""
    served: set[str] = set()
    for each in facts.nodes:
        if each.queues is None:
            return set()
        served.update(each.queues)
    return set(facts.store.list_due_queues(apart_from=served))


def names(facts: Facts) -> Iterator[Finding]:
    """Whether the handlers that were named have all that is to run."""
    known = facts.names
    if known is None:
        return
    lacking = Counter(each.name for each in facts.active if each.name not in known)
    for name, count in lacking.most_common(SHOWN):
        if name is None:
            yield NAMELESS_UNREGISTERED.found(
                f"the handlers have none for definitions without a name:"
                f" {_nameless(facts)}"
            )
            continue
        yield NAME_UNREGISTERED.found(
            f"the handlers have none for {name!r}, of which there are {_so_many(count)}"
        )
    named = [each.definition.name for each in facts.waiting]
    waiting = Counter(each for each in named if each not in {*known, *lacking})
    for name, count in waiting.most_common(SHOWN):
        of = _so_many_wait(count)
        if name is None:
            yield NAMELESS_UNREGISTERED.found(
                f"the handlers have none for definitions without a name: {of}"
            )
            continue
        yield NAME_UNREGISTERED.found(f"the handlers have none for {name!r}: {of}")
    if not (lacking or waiting):
        yield well("handlers", "there is one for each active definition")


def definitions(facts: Facts) -> Iterator[Finding]:
    """Which fire no more, or should have fired."""
    found, active = facts.definitions, facts.active
    if len(found) >= facts.most:
        yield NOT_ALL_READ.found(
            f"of the definitions the first {facts.most:,} were read"
        )
    yield well("definitions", f"{len(found):,} were read, {len(active):,} are active")
    unknown = [each for each in active if isinstance(each.trigger, UnknownTrigger)]
    if unknown:
        kinds = ", ".join(sorted({_kind(each) for each in unknown}))
        yield TRIGGER_UNKNOWN.found(f"{_listed(unknown)} have triggers of kind {kinds}")
    late = [each for each in active if _is_late(each, facts)]
    if late:
        oldest = min(each.next_fire_time or facts.now for each in late)
        yield OVERDUE.found(
            f"{_listed(late)} should have fired, the first"
            f" {length(facts.now - oldest)} ago, and have not"
        )
    over = [each for each in found if _is_over(each, facts)]
    if over:
        yield NEVER_AGAIN.found(f"{_listed(over)} never fire again")
    paused = [each for each in found if each.state is DefinitionState.PAUSED]
    if paused:
        yield PAUSED.found(f"{_listed(paused)} are paused")


def _is_late(definition: TaskDefinition, facts: Facts) -> bool:
    at = definition.next_fire_time
    return at is not None and facts.now - at > LATE


def _is_over(definition: TaskDefinition, facts: Facts) -> bool:
    """Whether it has fired for the last time, and was no one-off nor on demand."""
    trigger = definition.trigger
    if isinstance(trigger, OnDemandTrigger | UnknownTrigger) or not trigger.recurring:
        return False
    if definition.state is DefinitionState.COMPLETED:
        return True
    if definition.next_fire_time is not None or definition.paused:
        return False
    # It counts from the end of a run: one that is open will have it fire again.
    list_instances = facts.store.list_instances
    return not any(
        list_instances(definition_id=definition.id, state=each, limit=1)
        for each in OPEN
    )


def _kind(definition: TaskDefinition) -> str:
    assert isinstance(definition.trigger, UnknownTrigger)
    return repr(definition.trigger.unknown_kind)


def _nameless(facts: Facts, queue: str | None = None) -> str:
    """Those without a name, of one queue or of all."""
    return _listed(
        [
            each
            for each in facts.active
            if each.name is None and queue in (None, each.queue)
        ]
    )


def _so_many_wait(count: int) -> str:
    return "1 instance waits" if count == 1 else f"{count:,} instances wait"


def _so_many(count: int) -> str:
    return "1 definition" if count == 1 else f"{count:,} definitions"


def _listed(definitions: Sequence[TaskDefinition]) -> str:
    """How many they are, and the first by their names."""
    named = ", ".join(labels(definitions[:SHOWN]))
    more = ", …" if len(definitions) > SHOWN else ""
    return f"{_so_many(len(definitions))} ({named}{more})"


def labels(definitions: Iterable[TaskDefinition]) -> Iterator[str]:
    """Each by its name, and its id."""
    for each in definitions:
        yield f"{each.name} {each.id}" if each.name else f"{each.id}"
