"""The command `migrate`."""

from contextlib import closing
from typing import Annotated

import typer

from go_scheduler.cli.connection import (
    SchemaBehindError,
    WhichStore,
    opened_store,
    scheme_of,
)
from go_scheduler.cli.options import ExitCode, grouped, text
from go_scheduler.cli.output import line, note
from go_scheduler.errors import ConfigurationError

app = typer.Typer()


@app.command()
@grouped
def migrate(
    where: WhichStore,
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether it is up to date.")
    ] = False,
    show: Annotated[
        bool, typer.Option("--show", help="Only print the SQL, for others to run.")
    ] = False,
    since: Annotated[
        str | None,
        text("With --show: the revision that the database is at.", metavar="REVISION"),
    ] = None,
) -> None:
    """Bring the schema of a store up to date."""
    from go_scheduler.stores.sql.schema import schema_sql

    if check and show:
        raise ConfigurationError("say --check or --show, not both")
    if since is not None and not show:
        raise ConfigurationError("--since is of use with --show only")
    url = where.url()
    if show:
        sql = schema_sql(scheme_of(url), since=since)
        line(sql.rstrip("\n") or "-- it is up to date")
        return
    try:
        with closing(opened_store(url, migrates=not check)) as store:
            store.initialize()
    except SchemaBehindError as error:
        note(str(error))
        raise typer.Exit(ExitCode.NOT_SO) from None
    line("the schema is up to date")
