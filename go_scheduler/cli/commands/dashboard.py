"""The command `dashboard`."""

from typing import Annotated

import typer

from go_scheduler.cli.groups import grouped
from go_scheduler.cli.options import text
from go_scheduler.cli.output import line
from go_scheduler.cli.where import Where, opened_store
from go_scheduler.errors import ConfigurationError

app = typer.Typer()


@app.command()
@grouped
def dashboard(
    where: Where,
    host: Annotated[str | None, text("The address to listen on.")] = None,
    port: Annotated[int | None, text("The port; 0: any that is free.")] = None,
    allow_changes: Annotated[
        bool,
        typer.Option(
            "--allow-changes",
            help="Have buttons that change something, for whoever may.",
        ),
    ] = False,
) -> None:
    """Show in a browser what runs, what failed and what comes, until a signal.

    It is for a store, and schedules and runs nothing. A server has its own, under
    /dashboard.
    """
    from contextlib import closing

    # Imported here: no other command needs a server.
    from go_scheduler.dashboard.configured import configured
    from go_scheduler.http.configuration.checking import check
    from go_scheduler.http.configuration.loading import load_configuration
    from go_scheduler.http.serving import serve_pages

    if (server := where.server_url()) is not None:
        raise ConfigurationError(
            f"a server has pages of its own: open {server.rstrip('/')}/dashboard/"
        )
    given = {
        "--host": (("server", "host"), host),
        "--port": (("server", "port"), port),
        "--allow-changes": (("dashboard", "allow_changes"), allow_changes or None),
    }
    said = {name: each for name, each in given.items() if each[1] is not None}
    url = where.url()
    loaded = load_configuration(where.config, options=said)
    check(loaded.settings, loaded.named)
    with closing(opened_store(url, migrates=False)) as store:
        serve_pages(loaded.settings, configured, store=store, say=line)
