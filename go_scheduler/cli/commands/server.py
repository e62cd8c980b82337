"""The commands `serve` and `config`."""

from pathlib import Path
from typing import Annotated

import typer

from go_scheduler.cli.exit_codes import ExitCode
from go_scheduler.cli.groups import grouped
from go_scheduler.cli.options import Json, text
from go_scheduler.cli.output import document, line
from go_scheduler.errors import ConfigurationError

app = typer.Typer()

Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The configuration; else ./go_scheduler.yaml, or the one in"
        " ~/.config/go_scheduler.",
        show_default=False,
    ),
]


@app.command()
@grouped
def serve(
    store: Annotated[
        str | None,
        text("The store; else that of the configuration.", metavar="URL"),
    ] = None,
    host: Annotated[str | None, text("The address to listen on.")] = None,
    port: Annotated[int | None, text("The port; 0: any that is free.")] = None,
    config: Config = None,
    no_run: Annotated[
        bool,
        typer.Option(
            "--no-run", help="Only answer: create no instances, and run nothing."
        ),
    ] = False,
) -> None:
    """Serve the HTTP API and the dashboard, and schedule.

    Without a store it is a file of SQLite in the working folder.
    """
    # Imported here: no other command needs a server.
    from go_scheduler.dashboard.configured import configured
    from go_scheduler.http.configuration.checking import check
    from go_scheduler.http.configuration.loading import load_configuration
    from go_scheduler.http.serving import serve as served

    given = {
        "--store": (("store", "url"), store),
        "--host": (("server", "host"), host),
        "--port": (("server", "port"), port),
    }
    said = {name: each for name, each in given.items() if each[1] is not None}
    loaded = load_configuration(config, options=said)
    check(loaded.settings, loaded.named)
    pages = configured if loaded.settings.dashboard.enabled else None
    if not served(loaded.settings, runs=not no_run, pages=pages, say=line):
        raise typer.Exit(ExitCode.NOT_SO)


@app.command("config")
@grouped
def config_(
    config: Config = None,
    show: Annotated[
        bool, typer.Option("--show", help="Print each setting, and where it was said.")
    ] = False,
    json: Json = False,
) -> None:
    """Check the configuration, or show all of it; what is secret is masked."""
    from go_scheduler.http.configuration.checking import check
    from go_scheduler.http.configuration.loading import load_configuration
    from go_scheduler.http.configuration.showing import as_yaml, settings_of

    if json and not show:
        raise ConfigurationError("--json is of use with --show only")
    loaded = load_configuration(config)
    check(loaded.settings, loaded.named)
    if not show:
        line(f"{loaded.file.path or 'the configuration'} is right")
    elif json:
        for place, value, origin in settings_of(loaded):
            setting = ".".join(map(str, place))
            document({"setting": setting, "value": value, "origin": origin})
    else:
        line("\n".join(as_yaml(loaded)))
