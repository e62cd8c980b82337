"""The command `plan`."""

from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from go_scheduler.cli.asking import confirm
from go_scheduler.cli.exit_codes import ExitCode
from go_scheduler.cli.groups import grouped
from go_scheduler.cli.options import Json, Yes, text
from go_scheduler.cli.output import document, line, note
from go_scheduler.cli.where import Where, opened_store
from go_scheduler.client import Client
from go_scheduler.clock import SystemClock
from go_scheduler.errors import ConfigurationError
from go_scheduler.models import TaskDefinition

if TYPE_CHECKING:
    from go_scheduler.simulation import Plan

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
    # Imported here: no other command needs them.
    from go_scheduler.cli.declared import declared
    from go_scheduler.cli.plans import document_of, lines_of
    from go_scheduler.simulation import plan as planned

    if check and apply:
        raise ConfigurationError("say --check or --apply, not both")
    if version is not None and not apply:
        raise ConfigurationError("--version is of use with --apply only")
    given: dict[str, Any] = {"owner": owner, "removed": removed, "adopt": adopt}
    definitions = declared(source, SystemClock().now())
    with closing(opened_store(where.url(), migrates=apply)) as store:
        client = Client(store)
        found = planned(client, definitions, **given)
        if json:
            document(document_of(found))
        else:
            line("\n".join(lines_of(found)))
        if apply:
            _apply(client, found, definitions, yes=yes, given=given, version=version)
            tell = note if json else line
            tell("it has been declared")
    if check and not found.changes_nothing:
        raise typer.Exit(ExitCode.NOT_SO)


def _apply(
    client: Client,
    found: "Plan",
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
