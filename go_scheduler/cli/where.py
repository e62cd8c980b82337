"""Where a command finds definitions and instances: in a store, or behind a server."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from go_scheduler.client import Client
from go_scheduler.errors import ConfigurationError, StoreError
from go_scheduler.stores.base import Store
from go_scheduler.stores.opening import open_store

PANEL = "Where"
_MIGRATES = ("sqlite", "postgres", "postgresql", "cockroachdb")


class SchemaBehindError(StoreError):
    """The schema of a store is not as this version needs it."""


@dataclass(frozen=True, kw_only=True)
class Where:
    """The store or the server that a command is about."""

    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The store, such as sqlite:///jobs.db or postgresql://host/database;"
            " else GO_SCHEDULER_STORE.",
            rich_help_panel=PANEL,
        ),
    ] = None
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The configuration; else ./go_scheduler.yaml, or the one at home.",
            rich_help_panel=PANEL,
        ),
    ] = None

    @contextmanager
    def client(self, *, migrates: bool = False) -> Iterator[Client]:
        """What the commands call.

        Args:
            migrates: Whether the schema of a store may be brought up to date for it.

        Raises:
            ConfigurationError: Nothing says where, or it is said twice.
        """
        with closing(opened_store(self.url(), migrates=migrates)) as store:
            yield Client(store)

    def url(self) -> str:
        """The URL of the store.

        Raises:
            ConfigurationError: Nothing says which, or no other process can have it.
        """
        url = self.store or os.environ.get("GO_SCHEDULER_STORE") or self._configured()
        if not url:
            raise ConfigurationError(
                "say where: --store URL, or set GO_SCHEDULER_STORE, or have store.url"
                " in go_scheduler.yaml"
            )
        if url.startswith("memory:"):
            raise ConfigurationError(
                "a memory:// store ends with the process that has it: name one that"
                " processes can share, such as sqlite:///jobs.db"
            )
        return url

    def _configured(self) -> str | None:
        """The store that the configuration has, if there is a file of it."""
        from go_scheduler.http.configuration.files import find_file

        if find_file(self.config) is None:
            return None
        # Imported only if there is one: it takes as long as all the rest.
        from go_scheduler.http.configuration.loading import load_configuration

        url = load_configuration(self.config).settings.store.url
        return None if url is None else url.get_secret_value()


def opened_store(url: str, *, migrates: bool) -> Store:
    """The store of a URL, whose schema is as this version needs it.

    Raises:
        ConfigurationError: It is no URL of a store.
        StoreError: It cannot be used.
    """
    scheme = url.partition("://")[0].partition("+")[0].lower()
    if migrates or scheme not in _MIGRATES:
        return open_store(url)
    store = open_store(url, migrate=False)
    try:
        store.initialize()
    except StoreError as error:
        store.close()
        if "the schema in the database is behind" in str(error):
            raise SchemaBehindError(
                f"{error}; or run `go_scheduler migrate`, if it is the right one"
            ) from error
        raise
    return store
