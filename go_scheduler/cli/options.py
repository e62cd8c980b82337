"""Options, arguments and exit codes that commands share, and the store they name."""

import inspect
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_args, get_origin

import typer
from typer.models import CommandFunctionType

from go_scheduler.client import Client
from go_scheduler.errors import (
    BusUnavailableError,
    ConfigurationError,
    GoSchedulerError,
    StoreError,
)
from go_scheduler.formatting import read_duration, shown
from go_scheduler.http.remote_errors import CallerError, NotAllowedError
from go_scheduler.json import JSON
from go_scheduler.stores.base import Store
from go_scheduler.stores.opening import open_store

if TYPE_CHECKING:
    from go_scheduler.http.configuration.sections import Configuration
    from go_scheduler.http.remote import Remote


_ITEM = re.compile(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", re.MULTILINE)
"""A name, and what is said of it, on one or more lines."""


class Application(typer.Typer):
    """Commands whose docstrings say what their options are.

    A parameter that is annotated with a dataclass stands for a group of options, one
    for each field. ``Attributes`` of the group say what they are; a group may have a
    ``PANEL``, a heading in the help.
    """

    def command(
        self, name: str | None = None, **more: Any
    ) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """Decorate a command."""
        add = super().command(name, **more)

        def decorate(function: CommandFunctionType) -> CommandFunctionType:
            add(_documented(function))
            return function

        return decorate


def _documented(function: Callable[..., None]) -> Callable[..., None]:
    """The command as Typer wants it."""
    about, helps = _read(function)
    parameters = inspect.signature(function).parameters.values()
    groups: dict[str, Any] = {
        each.name: each.annotation
        for each in parameters
        if is_dataclass(each.annotation)
    }

    def call(**given: Any) -> None:
        for name, group in groups.items():
            options = {each.name: given.pop(each.name) for each in fields(group)}
            given[name] = group(**options)
        function(**given)

    found: list[inspect.Parameter] = []
    for each in parameters:
        if each.name in groups:
            found += _options_of(groups[each.name])
        else:
            found.append(_option(each, helps))
    call.__name__, call.__doc__ = function.__name__, about
    call.__annotations__ = {}
    call.__signature__ = inspect.Signature(found)  # type: ignore[attr-defined]
    return call


def _read(documented: object) -> tuple[str, dict[str, str]]:
    """Split a docstring: what it says of the whole, and of each option."""
    text = inspect.cleandoc(documented.__doc__ or "")
    about, *options = re.split(r"^(?:Args|Attributes):\n", text, flags=re.MULTILINE)
    items = _ITEM.findall("".join(options))
    return about.strip(), {name: " ".join(said.split()) for name, said in items}


def _options_of(group: Any) -> Sequence[inspect.Parameter]:
    helps: dict[str, str] = {}
    for base in reversed(group.__mro__):
        helps |= _read(base)[1]
    panel = getattr(group, "PANEL", None)
    options = inspect.signature(group).parameters.values()
    return [_option(each, helps, panel) for each in options]


def _option(
    parameter: inspect.Parameter, helps: Mapping[str, str], panel: str | None = None
) -> inspect.Parameter:
    """The parameter, as Typer wants it."""
    kind, info = parameter.annotation, typer.Option()
    if get_origin(kind) is Annotated:
        kind, info = get_args(kind)
        info = copy(info)
    if kind is not typer.Context:
        # Python drops docstrings, if it is told to optimize.
        info.help = info.help or helps.get(parameter.name)
        info.rich_help_panel = panel
        # Typer has the first name of an option as its default.
        if kind is bool and info.default is ...:
            info.param_decls = (f"--{parameter.name.replace('_', '-')}",)
        kind = Annotated[kind, info]
    return parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY)


def instant_of(text: str | None, option: str) -> datetime | None:
    """Parse an instant of RFC 3339 or ISO 8601; None stays None.

    Raises:
        ConfigurationError: It is wrong, or has no time zone.
    """
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f"{option} must be a time such as 2030-01-01T09:00:00Z, not {shown(text)}"
        ) from None
    if found.tzinfo is None:
        raise ConfigurationError(
            f"{option} does not say in which time zone: write {text}Z for UTC, or an"
            f" offset such as {text}+01:00"
        )
    return found


def duration_of(text: str | None, option: str) -> timedelta | None:
    """Parse a duration; None stays None.

    Raises:
        ConfigurationError: It is no duration.
    """
    return None if text is None else read_duration(text, option)


def object_of(text: str | None, option: str) -> Mapping[str, JSON] | None:
    """Parse a JSON object; None stays None.

    Raises:
        ConfigurationError: It is no JSON object.
    """
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ConfigurationError(
            f"{option} must be a JSON object such as '{{\"order\": 7}}', not"
            f" {shown(text)}"
        )
    return found


def pairs_of(texts: Sequence[str] | None, option: str) -> Mapping[str, str]:
    """Parse names and their texts, such as ``region=us``; the last of a name counts.

    Raises:
        ConfigurationError: One has no ``=``, or no name before it.
    """
    found = {}
    for each in texts or ():
        name, equals, value = each.partition("=")
        if not (name and equals):
            raise ConfigurationError(
                f"{option} must be a name and a text such as region=us, not"
                f" {shown(each)}"
            )
        found[name] = value
    return found


def text(*names: str, metavar: str | None = None, help: str | None = None) -> Any:
    """An option without a default in its help."""
    return typer.Option(*names, help=help, metavar=metavar, show_default=False)


def argument(metavar: str | None = None, help: str | None = None) -> Any:
    """An argument without a default in its help."""
    return typer.Argument(metavar=metavar, help=help, show_default=False)


Json = Annotated[
    bool,
    typer.Option("--json", help="Print JSON, for scripts: an object on each line."),
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask, of however many it is.")
]
Definition = Annotated[
    str,
    argument(
        "DEFINITION",
        "Its id or key, the beginning of its id, or a name that only it has.",
    ),
]
Definitions = Annotated[
    list[str] | None,
    argument(
        "[DEFINITION]...",
        "Ids or keys, beginnings of ids, or names that only one definition has.",
    ),
]
Instances = Annotated[
    list[str] | None, argument("[INSTANCE]...", "Ids, or beginnings of ids.")
]
Handler = Annotated[
    str,
    argument(
        "MODULE:NAME",
        "A handler or a registry of handlers, such as myapp.jobs:registry.",
    ),
]
Config = Annotated[
    Path | None,
    text(
        metavar="FILE",
        help="The configuration file; default: ./go_scheduler.yaml,"
        " then the one in ~/.config/go_scheduler.",
    ),
]
Host = Annotated[str | None, text(help="The address to listen on.")]
Port = Annotated[int | None, text(help="The port; 0: any that is free.")]
Name = Annotated[str | None, text(help="Only those with this name.")]
Queue = Annotated[str | None, text(help="Only those in this queue.")]
Metadata = Annotated[
    str | None,
    text(
        metavar="JSON",
        help="Only those whose metadata contains this, such as"
        ' \'{"team": "billing"}\'.',
    ),
]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="The most to list.")]
Time = Annotated[str | None, text(metavar="TIME")]


class ExitCode(IntEnum):
    """How a command ended; `doctor` ends with 1 after warnings, with 2 after errors."""

    DONE = 0
    """It has done its work."""
    NOT_SO = 1
    """Nothing matches, or the state does not allow it."""
    USAGE = 2
    """An argument or a setting is wrong; nothing was done."""
    AWAY = 3
    """The store, the server or the bus cannot be reached, or cannot be used."""
    NOT_ALLOWED = 4
    """The server does not know the caller, or does not allow it."""
    INTERRUPTED = 130
    """Ctrl-C."""
    BROKEN_PIPE = 141
    """The reader of the output has closed it."""


def exit_code_of(error: GoSchedulerError) -> ExitCode:
    """The exit code of an error."""
    if isinstance(error, ConfigurationError):
        return ExitCode.USAGE
    if isinstance(error, StoreError | BusUnavailableError):
        return ExitCode.AWAY
    if isinstance(error, NotAllowedError):
        return ExitCode.NOT_ALLOWED
    return ExitCode.NOT_SO


Connected: TypeAlias = "Client | Remote"
_MIGRATES = ("sqlite", "postgresql", "cockroachdb")

Url = Annotated[str | None, text(metavar="URL")]


class SchemaBehindError(StoreError):
    """The schema of a store is missing or outdated."""


@dataclass(frozen=True, kw_only=True)
class Where:
    """The store or the server that a command is about.

    Attributes:
        store: The store, such as sqlite:///jobs.db, postgresql://host/database or
            redis://host; else GO_SCHEDULER_STORE.
        server: The server, such as http://127.0.0.1:8710, instead of a store; else
            GO_SCHEDULER_SERVER.
    """

    PANEL = "Where"
    store: Url = None
    server: Url = None
    config: Config = None

    @contextmanager
    def client(self, *, migrates: bool = False) -> Iterator[Connected]:
        """Connect to the store or the server.

        Args:
            migrates: Whether the schema of a store may be created or updated.

        Raises:
            ConfigurationError: Neither is named, or both.
        """
        if (server := self.server_url()) is not None:
            # Imported here: a store does not need it, and it takes long.
            from go_scheduler.http.remote import Remote

            with Remote(server, token=token_for(server)) as client:
                yield client
            return
        with closing(opened_store(self.url(), migrates=migrates)) as store:
            yield Client(store)

    def server_url(self) -> str | None:
        """The URL of the server; None: a store is meant."""
        if self.store is not None and self.server is not None:
            raise ConfigurationError("say --store or --server, not both")
        if self.store is not None or self.server is not None:
            return self.server
        server = os.environ.get("GO_SCHEDULER_SERVER")
        if server and os.environ.get("GO_SCHEDULER_STORE"):
            raise ConfigurationError(
                "GO_SCHEDULER_STORE and GO_SCHEDULER_SERVER are both set: say --store"
                " or --server"
            )
        return server or None

    def url(self) -> str:
        """The URL of the store.

        Raises:
            ConfigurationError: No store is named, or it is in memory.
        """
        return _url_of(
            self.store,
            self.config,
            missing="say where: --store URL or --server URL, or set GO_SCHEDULER_STORE"
            " or GO_SCHEDULER_SERVER, or have store.url in go_scheduler.yaml",
        )


@dataclass(frozen=True, kw_only=True)
class WhichStore:
    """The store of a command that no server can do.

    Attributes:
        store: The store, such as sqlite:///jobs.db, postgresql://host/database or
            redis://host; else GO_SCHEDULER_STORE.
    """

    PANEL = "Where"
    store: Url = None
    config: Config = None

    def url(self) -> str:
        """The URL of the store.

        Raises:
            ConfigurationError: No store is named, or it is in memory.
        """
        return _url_of(
            self.store,
            self.config,
            missing="this command needs the store itself: say --store URL, or set"
            " GO_SCHEDULER_STORE, or have store.url in go_scheduler.yaml",
        )


def _url_of(store: str | None, config: Path | None, *, missing: str) -> str:
    """The URL of a store; ``missing`` says what to do if none is named."""
    url = store or os.environ.get("GO_SCHEDULER_STORE")
    if not url:
        # Imported here: most commands read no file.
        from go_scheduler.http.configuration.files import store_url

        url = store_url(config)
    if not url:
        raise ConfigurationError(missing)
    if url.startswith("memory:"):
        raise ConfigurationError(
            "a memory:// store ends with the process that has it: name one that"
            " processes can share, such as sqlite:///jobs.db"
        )
    return url


def configuration(
    file: Path | None, options: Mapping[str, tuple[str, object]] | None = None
) -> "Configuration":
    """Load the configuration, with the options of a command.

    Args:
        file: The file; None: the one in the usual places.
        options: By the name of each option, its setting and its value; None: it was
            not given.

    Raises:
        ConfigurationError: A setting is wrong.
    """
    from go_scheduler.http.configuration.loading import load_configuration

    return load_configuration(file, options=options)


def checked_configuration(
    file: Path | None, options: Mapping[str, tuple[str, object]] | None = None
) -> "Configuration":
    """The same, if a server can start with it."""
    from go_scheduler.http.configuration.loading import check

    settings = configuration(file, options)
    check(settings)
    return settings


def token_for(server: str) -> str | None:
    """The token for a server; None: there is none.

    Raises:
        CallerError: A login has expired.
        ConfigurationError: Others could read the token of the environment.
    """
    from go_scheduler.http.access.login import LoginError, Logins
    from go_scheduler.http.access.loopback import check_safe_url, is_safe_url

    if token := os.environ.get("GO_SCHEDULER_TOKEN"):
        check_safe_url(server)
        return token
    if not is_safe_url(server):
        return None
    try:
        return Logins().token(server)
    except LoginError as error:
        raise CallerError(str(error)) from error


def tokens_for(server: str) -> Callable[[], str] | None:
    """A function that returns the current token; None: there is no token.

    Raises:
        CallerError: A login has expired.
    """
    token = token_for(server)
    return None if token is None else lambda: token_for(server) or token


def scheme_of(url: str) -> str:
    """The kind of database of a URL, without a driver."""
    scheme = url.partition("://")[0].partition("+")[0].lower()
    return "postgresql" if scheme == "postgres" else scheme


def opened_store(url: str, *, migrates: bool) -> Store:
    """Open a store whose schema is up to date.

    Raises:
        ConfigurationError: The URL is wrong.
        StoreError: The store cannot be used.
    """
    if migrates or scheme_of(url) not in _MIGRATES:
        return open_store(url)
    store = open_store(url, migrate=False)
    try:
        store.initialize()
    except StoreError as error:
        store.close()
        found, missing, _ = str(error).partition("; opened with migrate=True")
        if missing:
            raise SchemaBehindError(
                f"{found}: name another one by --store, or have `go_scheduler add` or"
                " `go_scheduler migrate` make it"
            ) from error
        if "the schema in the database is behind" in str(error):
            raise SchemaBehindError(
                f"{error}; or run `go_scheduler migrate`, if it is the right one"
            ) from error
        raise
    return store
