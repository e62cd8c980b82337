"""The commands `add` and `preview`."""

import warnings
from datetime import datetime
from typing import Annotated
from uuid import UUID

import typer

from go_scheduler.cli.connection import Where
from go_scheduler.cli.definition_options import Policies, TriggerOptions
from go_scheduler.cli.details import described
from go_scheduler.cli.options import (
    Json,
    argument,
    grouped,
    instant_of,
    object_of,
    text,
)
from go_scheduler.cli.output import at, document, line, note
from go_scheduler.clock import SystemClock
from go_scheduler.errors import ConfigurationError
from go_scheduler.models import TaskDefinition

app = typer.Typer()
_NAMELESS = (
    "it has no name, so only a scheduler with one handler for all runs it: write the"
    " name first, as in `go_scheduler add report --every 5m`"
)


@app.command()
@grouped
def add(
    when: TriggerOptions,
    policies: Policies,
    where: Where,
    name: Annotated[
        str | None, argument("The name of the handler that runs it.")
    ] = None,
    id: Annotated[str | None, text("Its id; default: a new one.")] = None,
    key: Annotated[
        str | None,
        text("A text from which its id is made; the same text makes the same id."),
    ] = None,
    metadata: Annotated[
        str | None, text("The metadata that its handler gets.", metavar="JSON")
    ] = None,
    paused: Annotated[bool, typer.Option("--paused", help="Create it paused.")] = False,
    comment: Annotated[str | None, text("Why it is paused.", "--note")] = None,
    json: Json = False,
) -> None:
    """Schedule a definition: what to run, and when.

    A definition with the same id is replaced; an equal one stays as it is.
    """
    definition = TaskDefinition(
        trigger=when.trigger(SystemClock().now()),
        id=_id(id, key),  # type: ignore[arg-type]
        name=name,
        metadata=object_of(metadata, "--metadata") or {},
        paused=paused,
        note=comment,
        **policies.fields(),
    )
    with (
        where.client(migrates=True) as client,
        warnings.catch_warnings(record=True, action="always") as told,
    ):
        stored = client.schedule(definition)
    for each in told:
        note(f"beware: {each.message}")
    if name is None:
        note(f"beware: {_NAMELESS}")
    if json:
        document(stored)
        return
    line(f"{stored.id}  {described(stored.trigger)}")
    if stored.next_fire_time is not None:
        now = SystemClock().now()
        line(f"fires next at {at(stored.next_fire_time)}{_passed(stored, now)}")


@app.command()
@grouped
def preview(
    when: TriggerOptions,
    words: Annotated[
        str | None,
        argument('In words, such as "every other tuesday at 9:34am".', "[PHRASE]"),
    ] = None,
    count: Annotated[
        int, typer.Option("--count", "-n", help="How many fire times.")
    ] = 5,
    after: Annotated[
        str | None, text("The first instant; default: now.", metavar="TIME")
    ] = None,
    json: Json = False,
) -> None:
    """Show when something would fire, without a store."""
    if words is not None:
        if when != TriggerOptions(timezone=when.timezone):
            raise ConfigurationError(
                "say when by a phrase or by an option, not by both"
            )
        when = TriggerOptions(phrase=words, timezone=when.timezone)
    # Imported here: no other command needs it.
    from go_scheduler.triggers import explain
    from go_scheduler.triggers.previews import preview as previewed

    since = instant_of(after, "--after") or SystemClock().now()
    trigger = when.trigger(since)
    if not json:
        line(explain(trigger, since, n=count))
        return
    for each in previewed(trigger, count, since):
        document(each)


def _passed(stored: TaskDefinition, now: datetime) -> str:
    """What happens to a one-off whose time has passed; empty: it has not."""
    at = stored.next_fire_time
    if stored.recurring or at is None or at > now:
        return ""
    if stored.paused:
        comes = "it runs once it is resumed"
    elif stored.catch_up is not None and stored.catch_up.drop_after is not None:
        comes = "it runs unless its drop-after has passed as well"
    else:
        comes = "it runs at once"
    return f", which has passed: {comes}"


def _id(id: str | None, key: str | None) -> UUID | None:
    if id is not None and key is not None:
        raise ConfigurationError("say the id by --id or by --key, not by both")
    if key is not None:
        return TaskDefinition.id_for(key)
    try:
        return None if id is None else UUID(id)
    except ValueError:
        raise ConfigurationError(
            "--id must be a UUID; --key makes one of any text"
        ) from None
