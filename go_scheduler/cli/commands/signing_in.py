"""The commands `login` and `logout`."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from go_scheduler.cli.exit_codes import ExitCode
from go_scheduler.cli.groups import grouped
from go_scheduler.cli.options import text
from go_scheduler.cli.output import line
from go_scheduler.errors import ConfigurationError
from go_scheduler.http.remote_errors import NotAllowedError

if TYPE_CHECKING:
    from go_scheduler.http.access.device_login import DeviceCode

app = typer.Typer()


@dataclass(frozen=True, kw_only=True)
class There:
    """The server to sign in to."""

    server: Annotated[
        str | None,
        text("The server; else GO_SCHEDULER_SERVER.", metavar="URL"),
    ] = None

    @property
    def url(self) -> str:
        """Its URL.

        Raises:
            ConfigurationError: Nothing says which.
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
        bool, typer.Option("--browser", help="By a browser on this machine.")
    ] = False,
    issuer: Annotated[
        str | None, text("The issuer, instead of the one that the server names.")
    ] = None,
    client: Annotated[
        str | None, text("As which client; else as the server says.")
    ] = None,
    scope: Annotated[
        str | None,
        text(
            'The scopes to ask for, such as "openid jobs:read runs:read"; else openid'
            " alone."
        ),
    ] = None,
) -> None:
    """Sign in to a server, by any device that has a browser."""
    import webbrowser

    from go_scheduler.http.access.login import Logins
    from go_scheduler.http.access.login_provider import LoginError

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
