"""The commands of servers and workers, and the keys and logins for them."""

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from go_scheduler.cli.options import (
    Application,
    Config,
    ExitCode,
    Handler,
    Host,
    Json,
    Port,
    Url,
    Where,
    argument,
    checked_configuration,
    configuration,
    opened_store,
    text,
    tokens_for,
)
from go_scheduler.cli.output import document, line, note
from go_scheduler.errors import BusUnavailableError, ConfigurationError
from go_scheduler.formatting import shown
from go_scheduler.http.remote_errors import NotAllowedError

if TYPE_CHECKING:
    from go_scheduler.dispatch.bus import MessageBus
    from go_scheduler.http.access.login import DeviceCode


app = Application()


@app.command()
def serve(
    store: Url = None,
    host: Host = None,
    port: Port = None,
    config: Config = None,
    no_run: bool = False,
) -> None:
    """Serve the HTTP API and the dashboard, and schedule.

    Without a store, it uses a SQLite file in the working folder.

    Args:
        store: The store; default: that of the configuration.
        no_run: Only answer: create no instances, and run nothing.
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
def config_(
    config: Config = None,
    show: bool = False,
    json: Json = False,
) -> None:
    """Check the configuration, or show all of it with secrets masked.

    Args:
        show: Print each setting, and where it comes from.
    """
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
def dashboard(
    where: Where,
    host: Host = None,
    port: Port = None,
    allow_changes: bool = False,
) -> None:
    """Serve the dashboard: what runs, what failed and what comes.

    It needs a store, and runs nothing itself. A server has its own dashboard, at
    /dashboard.

    Args:
        allow_changes: Show buttons that change something, to those who may.
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
    subject: Annotated[str, argument()],
    scope: Annotated[list[str], text("--scope", "-s")],
    queue: Annotated[list[str] | None, text("--queue", "-q")] = None,
    owner: list[str] | None = None,
    json: Json = False,
) -> None:
    """Make an API key, and print what to put into the configuration.

    The key is shown once, and kept nowhere. `--scope`, `--queue` and `--owner` may
    be given more than once.

    Args:
        subject: Who has the key, for the log.
        scope: What it allows, such as workers.
        queue: A queue that it is restricted to.
        owner: An owner that it is restricted to.
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
    """The server to sign in to.

    Attributes:
        server: The server; else GO_SCHEDULER_SERVER.
    """

    server: Url = None

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
def login(
    there: There,
    browser: bool = False,
    issuer: str | None = None,
    client: str | None = None,
    scope: str | None = None,
) -> None:
    """Sign in to a server, with a browser on any device.

    Args:
        browser: With a browser on this machine.
        issuer: The issuer, instead of the one that the server names.
        client: The client id; default: the one that the server names.
        scope: The scopes to ask for, such as "openid jobs:read runs:read"; default:
            openid.
    """
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
def logout(there: There) -> None:
    """Forget the tokens for a server."""
    from go_scheduler.http.access.login import Logins

    if not Logins().logout(there.url):
        line(f"nobody was signed in to {there.url}")
        raise typer.Exit(ExitCode.NOT_SO)
    line(f"signed out of {there.url}")


def _show(code: "DeviceCode") -> None:
    line(f"open {code.complete_url or code.url} and type in the code {code.code}")


@app.command()
def worker(
    handler: Handler,
    where: Where,
    queues: str | None = None,
    max_workers: Annotated[int | None, text(metavar="COUNT")] = None,
) -> None:
    """Run your own handlers, as a node on a store or as a worker of a server.

    At the first signal it waits for what runs; at the second it leaves that behind.

    Args:
        queues: The queues that it serves, separated by commas.
        max_workers: The most handlers that run at once.
    """
    # Imported here: no other command needs all that a node is.
    from go_scheduler.http.configuration.imported import imported_handler
    from go_scheduler.http.logs import written_log
    from go_scheduler.http.worker import Worker
    from go_scheduler.scheduler import Scheduler

    options = {
        "--queues": ("scheduler.queues", queues),
        "--max-workers": ("scheduler.max_workers", max_workers),
    }
    settings = configuration(where.config, options)
    arguments = settings.scheduler.as_arguments()
    found: Any = imported_handler(handler)
    queues_served = arguments["queues"]
    told = f"runs {handler} for the queues {', '.join(queues_served)}"
    with written_log(settings.log):
        if (server := where.server_url()) is not None:
            far = Worker(
                server,
                found,
                queues=queues_served,
                max_workers=arguments["max_workers"],
                token=tokens_for(server),
            )
            line(f"{told}, of {server}")
            far.run()
            return
        with closing(opened_store(where.url(), migrates=True)) as store:
            scheduler = Scheduler(found, store, **arguments)
            line(told)
            scheduler.run()


@app.command()
def dispatch_worker(
    handler: Handler,
    bus: Url = None,
    queues: Annotated[str | None, text(metavar="QUEUES")] = None,
    max_workers: Annotated[int, typer.Option(metavar="COUNT")] = 32,
    limit: Annotated[list[str] | None, text(metavar="TASK=COUNT")] = None,
    topic_per_task: Annotated[str | None, text(metavar="TASKS")] = None,
    namespace: str | None = None,
    name: Annotated[str | None, text(metavar="NAME")] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
) -> None:
    """Run your own handlers for schedulers on a message bus.

    At the first signal it waits for what runs; at the second it leaves that behind.

    Args:
        bus: The bus, such as amqps://user:password@host; default: GO_SCHEDULER_BUS,
            where other users do not see the password, then dispatch.url of the
            configuration.
        queues: The queues that it serves, separated by commas; default: the queue named
            default.
        max_workers: The most handlers that run at once.
        limit: The most runs of one task at once; for several.
        topic_per_task: The tasks that have topics of their own, separated by commas;
            all: each task has one. Default: dispatch of the configuration.
        namespace: The prefix of all topics, as for the dispatcher; default: dispatch of
            the configuration.
        name: The name that is shown for it; each worker needs another one.
        config: The configuration, of which dispatch and log count; else
            ./go_scheduler.yaml, or the one at home.
    """
    # Imported here: no other command needs a bus.
    from go_scheduler.dispatch.bus import open_bus
    from go_scheduler.dispatch.worker import DispatchWorker
    from go_scheduler.http.configuration.imported import imported_handler
    from go_scheduler.http.logs import written_log

    settings = configuration(config)
    dispatch = settings.dispatch
    kept = None if dispatch.url is None else dispatch.url.get_secret_value()
    if not (url := bus or os.environ.get("GO_SCHEDULER_BUS") or kept):
        raise ConfigurationError(
            "say which bus: --bus URL, GO_SCHEDULER_BUS, or dispatch.url in the"
            " configuration"
        )
    found: Any = imported_handler(handler)
    served = ["default"] if queues is None else _names(queues)
    topics: bool | Collection[str] = dispatch.topic_per_task
    if topic_per_task is not None:
        topics = topic_per_task == "all" or _names(topic_per_task)
    with written_log(settings.log), open_bus(url) as opened:
        worker = DispatchWorker(
            opened,
            found,
            queues=served,
            max_workers=max_workers,
            limits=_limits(limit or ()),
            topic_per_task=topics,
            namespace=dispatch.namespace if namespace is None else namespace,
            name=name,
        )
        if url.lower().startswith("memory:"):
            note("memory:// is within this process: nobody elsewhere publishes there")
        told = f"for the queues {', '.join(served)}"
        if queues is None:
            told = "for the queue default, as --queues names no other"
        line(f"{_begun(opened)} {handler} {told}")
        worker.run()


def _begun(bus: "MessageBus") -> str:
    """Check the bus; returns the beginning of the first message."""
    try:
        bus.check()
    except BusUnavailableError as error:
        if error.refused:
            raise
        return "once the bus is there, runs"
    return "runs"


def _names(listed: str) -> Sequence[str]:
    return [each.strip() for each in listed.split(",")]


def _limits(said: Sequence[str]) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for each in said:
        task, equals, count = each.rpartition("=")
        if not equals or not count.isdecimal():
            raise ConfigurationError(
                f"--limit must be a task and a number, such as resize=2: {shown(each)}"
            )
        found[task] = int(count)
    return found
