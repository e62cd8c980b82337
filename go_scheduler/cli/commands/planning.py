"""The command `plan`."""

import json as json_text
from collections.abc import Iterable, Mapping
from contextlib import closing
from datetime import timedelta
from typing import Annotated, Any

import typer

from go_scheduler.cli.asking import confirm
from go_scheduler.cli.documents import definition_document
from go_scheduler.cli.exit_codes import ExitCode
from go_scheduler.cli.groups import grouped
from go_scheduler.cli.options import Json, Yes, text
from go_scheduler.cli.output import document, line, note
from go_scheduler.cli.showing import described
from go_scheduler.cli.where import Where, opened_store
from go_scheduler.client import Client
from go_scheduler.clock import SystemClock
from go_scheduler.errors import ConfigurationError
from go_scheduler.http.configuration.durations import write_duration
from go_scheduler.models import TaskDefinition
from go_scheduler.simulation import Plan
from go_scheduler.simulation import plan as planned
from go_scheduler.simulation.plans import values_of
from go_scheduler.triggers import Trigger

app = typer.Typer()


@app.command()
@grouped
def plan(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="The set: myapp.jobs:definitions, or a file of JSON lines.",
            show_default=False,
        ),
    ],
    where: Where,
    owner: Annotated[str, text("Whose set it is.")],
    removed: Annotated[
        str,
        text("What becomes of those that it has no more: delete, pause or keep."),
    ] = "delete",
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Take in what is in no set.")
    ] = False,
    version: Annotated[
        int | None, typer.Option(help="With --apply: the version of the set.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="End with 1 if anything would change.")
    ] = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="Declare the set, and so change it.")
    ] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Show what declaring a set of definitions would change, before it is declared."""
    from go_scheduler.cli.declared import declared

    if check and apply:
        raise ConfigurationError("say --check or --apply, not both")
    given: dict[str, Any] = {"owner": owner, "removed": removed, "adopt": adopt}
    definitions = declared(source, SystemClock().now())
    with closing(opened_store(where.url(), migrates=apply)) as store:
        client = Client(store)
        found = planned(client, definitions, **given)
        if json:
            document(_document(found))
        else:
            line("\n".join(_lines(found)))
        if apply:
            _apply(client, found, definitions, yes=yes, given=given, version=version)
            tell = note if json else line
            tell("it has been declared")
    if check and not found.changes_nothing:
        raise typer.Exit(ExitCode.NOT_SO)


def _apply(
    client: Client,
    found: Plan,
    definitions: Iterable[TaskDefinition],
    *,
    yes: bool,
    given: Mapping[str, Any],
    version: int | None,
) -> None:
    if found.removal != "keep":
        count = len(found.removed)
        confirm(f"{found.removal} {count} definitions", count, yes=yes)
    definitions = list(definitions)
    if definitions and not client.declare(definitions, version=version, **given):
        note("nothing was done: a later version of the set has been declared")
        raise typer.Exit(ExitCode.NOT_SO)
    if not definitions:
        client.declare(definitions, version=version, **given)


def _lines(found: Plan) -> Iterable[str]:
    yield (
        f"{len(found.added)} to add, {len(found.changed)} to change,"
        f" {len(found.removed)} to {found.removal}, {len(found.unchanged)} unchanged"
    )
    for each in found.added:
        yield f"+ {_label(each)}  {described(each.trigger)}"
    for change in found.changed:
        yield f"~ {_label(change.after)}"
        for name, before, after in values_of(change):
            yield f"    {name}: {_shown(before)} -> {_shown(after)}"
    for each in found.removed:
        yield f"- {_label(each)}  {described(each.trigger)}"
    for reason in found.refused:
        yield f"! {reason}"


def _label(definition: TaskDefinition) -> str:
    return f"{definition.id}  {definition.name or '-'}"


def _shown(value: object) -> str:
    if isinstance(value, Trigger):
        return described(value)
    if isinstance(value, timedelta):
        return write_duration(value)
    if isinstance(value, Mapping):
        return json_text.dumps(value, ensure_ascii=False)
    return "-" if value is None else str(value)


def _document(found: Plan) -> Mapping[str, Any]:
    return {
        "owner": found.owner,
        "added": [definition_document(each) for each in found.added],
        "changed": [
            {
                "before": definition_document(each.before),
                "after": definition_document(each.after),
                "fields": list(each.fields),
            }
            for each in found.changed
        ],
        "removed": [definition_document(each) for each in found.removed],
        "removal": found.removal,
        "unchanged": [str(each.id) for each in found.unchanged],
        "refused": list(found.refused),
    }
