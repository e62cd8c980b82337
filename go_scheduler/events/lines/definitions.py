"""Lines about what happens to definitions."""

from __future__ import annotations

from go_scheduler.events.definition_events import (
    DeclarationOutdated,
    DefinitionLocked,
    DefinitionSetAside,
    DefinitionsMoved,
    InstancesBackfilled,
    InstanceSkipped,
    TriggerFailed,
)
from go_scheduler.events.lines.line import (
    ERROR,
    INFO,
    WARNING,
    Line,
    definition_ids,
    line_of,
)


@line_of.register(DeclarationOutdated)
def _(event: DeclarationOutdated) -> Line:
    is_one = event.version is not None
    return Line(
        # In a rolling deploy that is as it should be.
        INFO if is_one else WARNING,
        "the set of %s was declared at version %d: what is declared %s changes nothing",
        (event.owner, event.stored, f"at {event.version}" if is_one else "without one"),
    )


@line_of.register(DefinitionLocked)
def _(event: DefinitionLocked) -> Line:
    text = "definition %s: another transaction has locked it, its firing has to wait"
    return Line(WARNING, text, (event.definition_id,), definition_ids(event))


@line_of.register(DefinitionSetAside)
def _(event: DefinitionSetAside) -> Line:
    return Line(
        ERROR,
        "definition %s cannot fire and is left alone for %d s: %r",
        (event.definition_id, event.retry_in.total_seconds(), event.exception),
        definition_ids(event),
        event.exception,
    )


@line_of.register(TriggerFailed)
def _(event: TriggerFailed) -> Line:
    return Line(
        ERROR,
        "definition %s: its trigger failed, it fires again in a minute: %r",
        (event.definition_id, event.exception),
        definition_ids(event),
        event.exception,
    )


@line_of.register(DefinitionsMoved)
def _(event: DefinitionsMoved) -> Line:
    what = "fire at other instants, by the present data of their time zones"
    return Line(INFO, f"%d definitions {what}", (event.count,))


@line_of.register(InstancesBackfilled)
def _(event: InstancesBackfilled) -> Line:
    of = event.name or f"definition {event.definition_id}"
    text = "%s: %d of its fire times from %s to %s are run after all, by hand"
    args = of, event.count, event.first, event.last
    return Line(INFO, text, args, definition_ids(event))


@line_of.register(InstanceSkipped)
def _(event: InstanceSkipped) -> Line:
    return Line(
        # What an overlap skips, or a full queue drops, is what was asked for.
        WARNING if event.late else INFO,
        "%s: not run, %d that were added for %s to %s: %s"
        if event.added
        else "%s: not run, %d of its fire times from %s to %s: %s",
        (
            event.name or f"definition {event.definition_id}",
            event.count,
            event.first,
            event.last,
            event.reason,
        ),
        definition_ids(event),
    )
