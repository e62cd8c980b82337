"""Connects a command to a store or a server."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, Union

from go_scheduler.cli.options import text
from go_scheduler.client import Client
from go_scheduler.errors import ConfigurationError, StoreError
from go_scheduler.http.remote_errors import CallerError
from go_scheduler.stores.base import Store
from go_scheduler.stores.opening import open_store

if TYPE_CHECKING:
    from go_scheduler.http.configuration.sections import Configuration
    from go_scheduler.http.remote import Remote

Connected: TypeAlias = Union[Client, "Remote"]
PANEL = "Where"
_MIGRATES = ("sqlite", "postgresql", "cockroachdb")

_Store = Annotated[
    str | None,
    text(
        "The store, such as sqlite:///jobs.db, postgresql://host/database or"
        " redis://host; else GO_SCHEDULER_STORE.",
        metavar="URL",
        panel=PANEL,
    ),
]
_Config = Annotated[
    Path | None,
    text(
        "The configuration file; default: ./go_scheduler.yaml,"
        " then the one in ~/.config/go_scheduler.",
        metavar="FILE",
        panel=PANEL,
    ),
]


class SchemaBehindError(StoreError):
    """The schema of a store is missing or outdated."""


@dataclass(frozen=True, kw_only=True)
class Where:
    """The store or the server that a command is about."""

    store: _Store = None
    server: Annotated[
        str | None,
        text(
            "The server, such as http://127.0.0.1:8710, instead of a store; else"
            " GO_SCHEDULER_SERVER.",
            metavar="URL",
            panel=PANEL,
        ),
    ] = None
    config: _Config = None

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
    """The store of a command that no server can do."""

    store: _Store = None
    config: _Config = None

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
