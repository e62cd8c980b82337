"""The commands `serve`, `config`, `dashboard`, `key`, `login` and `logout`."""

import os
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from go_scheduler.cli.connection import Where, checked_configuration, opened_store
from go_scheduler.cli.options import (
    Config,
    ExitCode,
    Host,
    Json,
    Port,
    argument,
    grouped,
    text,
)
from go_scheduler.cli.output import document, line, note
from go_scheduler.errors import ConfigurationError
from go_scheduler.http.remote_errors import NotAllowedError

if TYPE_CHECKING:
    from go_scheduler.http.access.login import DeviceCode

app = typer.Typer()


@app.command()
@grouped
def serve(
    store: Annotated[
        str | None,
        text("The store; default: that of the configuration.", metavar="URL"),
    ] = None,
    host: Host = None,
    port: Port = None,
    config: Config = None,
    no_run: Annotated[
        bool,
        typer.Option(
            "--no-run", help="Only answer: create no instances, and run nothing."
        ),
    ] = False,
) -> None:
    """Serve the HTTP API and the dashboard, and schedule.

    Without a store, it uses a SQLite file in the working folder.
    """
    # Imported here: no other command needs a server.
    from go_scheduler.dashboard.app import configured
    from go_scheduler.http.serving import serve as served

    options = {
        "--store": ("store.url", store),
        "--host": ("server.host", host),
        "--port": ("server.port", port),
    }
    settings = checked_configuration(config, options)
    pages = configured if settings.dashboard.enabled else None
    if not served(settings, runs=not no_run, pages=pages, say=line):
        raise typer.Exit(ExitCode.NOT_SO)


@app.command("config")
@grouped
def config_(
    config: Config = None,
    show: Annotated[
        bool,
        typer.Option("--show", help="Print each setting, and where it comes from."),
    ] = False,
    json: Json = False,
) -> None:
    """Check the configuration, or show all of it with secrets masked."""
    from go_scheduler.http.configuration.loading import as_yaml, settings_of

    if json and not show:
        raise ConfigurationError("--json is of use with --show only")
    settings = checked_configuration(config)
    if not show:
        line(f"{settings.sources.file or 'the configuration'} is right")
    elif json:
        for place, value, origin in settings_of(settings):
            setting = ".".join(map(str, place))
            document({"setting": setting, "value": value, "origin": origin})
    else:
        line("\n".join(as_yaml(settings)))


@app.command()
@grouped
def dashboard(
    where: Where,
    host: Host = None,
    port: Port = None,
    allow_changes: Annotated[
        bool,
        typer.Option(
            "--allow-changes",
            help="Show buttons that change something, to those who may.",
        ),
    ] = False,
) -> None:
    """Serve the dashboard: what runs, what failed and what comes.

    It needs a store, and runs nothing itself. A server has its own dashboard, at
    /dashboard.
    """
    # Imported here: no other command needs a server.
    from go_scheduler.dashboard.app import configured
    from go_scheduler.http.serving import serve_pages

    if (server := where.server_url()) is not None:
        raise ConfigurationError(
            f"a server has pages of its own: open {server.rstrip('/')}/dashboard/"
        )
    options = {
        "--host": ("server.host", host),
        "--port": ("server.port", port),
        "--allow-changes": ("dashboard.allow_changes", allow_changes or None),
    }
    url = where.url()
    settings = checked_configuration(where.config, options)
    with closing(opened_store(url, migrates=False)) as store:
        serve_pages(settings, configured, store=store, say=line)


@app.command()
def key(
    subject: Annotated[str, argument("Who has the key, for the log.")],
    scope: Annotated[
        list[str], text("What it allows, such as workers.", "--scope", "-s")
    ],
    queue: Annotated[
        list[str] | None, text("A queue that it is restricted to.", "--queue", "-q")
    ] = None,
    owner: Annotated[
        list[str] | None, text("An owner that it is restricted to.", "--owner")
    ] = None,
    json: Json = False,
) -> None:
    """Make an API key, and print what to put into the configuration.

    The key is shown once, and kept nowhere. `--scope`, `--queue` and `--owner` may
    be given more than once.
    """
    # Imported here: no other command needs them.
    import yaml

    from go_scheduler.http.access.authentication import ApiKey, new_key

    new = new_key()
    entry: dict[str, Any] = {"subject": subject, "hash": new.kept, "scopes": scope}
    entry |= {"queues": queue} if queue else {}
    entry |= {"owners": owner} if owner else {}
    ApiKey(**entry)  # Checks the scopes.
    if json:
        document({"key": new.key, **entry})
        return
    note(f"the key, which is shown this once: {new.key}")
    note("what go_scheduler.yaml is to have of it:")
    shown = {"access": {"keys": [entry]}}
    line(yaml.safe_dump(shown, sort_keys=False, default_flow_style=None).rstrip())


@dataclass(frozen=True, kw_only=True)
class There:
    """The server to sign in to."""

    server: Annotated[
        str | None,
        text("The server; else GO_SCHEDULER_SERVER.", metavar="URL"),
    ] = None

    @property
    def url(self) -> str:
        """The URL of the server.

        Raises:
            ConfigurationError: No server is named.
        """
        url = self.server or os.environ.get("GO_SCHEDULER_SERVER")
        if not url:
            raise ConfigurationError(
                "say where: --server URL, or set GO_SCHEDULER_SERVER"
            )
        return url


@app.command()
@grouped
def login(
    there: There,
    browser: Annotated[
        bool, typer.Option("--browser", help="With a browser on this machine.")
    ] = False,
    issuer: Annotated[
        str | None, text("The issuer, instead of the one that the server names.")
    ] = None,
    client: Annotated[
        str | None, text("The client id; default: the one that the server names.")
    ] = None,
    scope: Annotated[
        str | None,
        text(
            'The scopes to ask for, such as "openid jobs:read runs:read"; default:'
            " openid."
        ),
    ] = None,
) -> None:
    """Sign in to a server, with a browser on any device."""
    import webbrowser

    from go_scheduler.http.access.login import LoginError, Logins

    known = {"issuer": issuer, "client_id": client, "scope": scope}
    try:
        if browser:
            Logins().login_by_browser(there.url, webbrowser.open, **known)
        else:
            Logins().login_by_device(there.url, _show, **known)
    except LoginError as error:
        raise NotAllowedError(str(error)) from error
    line(f"signed in to {there.url}")


@app.command()
@grouped
def logout(there: There) -> None:
    """Forget the tokens for a server."""
    from go_scheduler.http.access.login import Logins

    if not Logins().logout(there.url):
        line(f"nobody was signed in to {there.url}")
        raise typer.Exit(ExitCode.NOT_SO)
    line(f"signed out of {there.url}")


def _show(code: "DeviceCode") -> None:
    line(f"open {code.complete_url or code.url} and type in the code {code.code}")
