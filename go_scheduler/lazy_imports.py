"""Public names of packages, imported from their modules when first asked for."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PUBLIC = (
    "go_scheduler",
    "go_scheduler.events",
    "go_scheduler.stores",
    "go_scheduler.triggers",
)
"""The packages that are always loaded, and list their names."""

_NOT_LOADED = {
    "BusSuite": "go_scheduler.testing",
    "CockroachDBStore": "go_scheduler.stores.cockroachdb",
    "InlineExecutor": "go_scheduler.testing",
    "ManualClock": "go_scheduler.testing",
    "PostgreSQLStore": "go_scheduler.stores.postgresql",
    "RedisStore": "go_scheduler.stores.redis",
    "SQLiteStore": "go_scheduler.stores.sqlite",
    "StoreMachine": "go_scheduler.testing",
    "StoreSuite": "go_scheduler.testing",
    "TriggerSuite": "go_scheduler.testing",
    "settle": "go_scheduler.testing",
}
"""Modules of public names that are not loaded just to look for a name."""


def on_demand(
    package: str, homes: Mapping[str, str], *, extra: str = ""
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The ``__getattr__`` and the ``__dir__`` of a package that imports on demand.

    Type checkers are shown the names by imports under ``TYPE_CHECKING``. A module that
    has the name of something it holds cannot be among them: once imported, it stands in
    the package under that name.

    Args:
        package: Its ``__name__``.
        homes: The module of each name, below the package.
        extra: What brings the libraries that these modules need.
    """
    names = vars(sys.modules[package])

    def get(name: str) -> object:
        if name not in homes:
            if (home := _home_of(name)) is not None:
                # An import statement does not show the text of an AttributeError.
                raise ImportError(
                    f"{name} is in {home}: from {home} import {name}", name=package
                )
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            found = getattr(import_module(f"{package}.{homes[name]}"), name)
        except ModuleNotFoundError as error:
            if not extra or str(error.name).startswith("go_scheduler"):
                raise
            text = without_extra(f"{name} needs", extra, error)
            raise ModuleNotFoundError(text, name=error.name) from error
        # From now on Python finds it without this function.
        names[name] = found
        return found

    def list_names() -> list[str]:
        return sorted({*names, *homes})

    return get, list_names


def without_extra(what: str, extra: str, error: ImportError) -> str:
    """What to install for what needs an extra."""
    return (
        f"{what} the extra {extra!r} of go_scheduler, which brings {error.name}: in a"
        f" checkout, pip install '.[{extra}]'"
    )


def _home_of(name: str) -> str | None:
    """The module of a public name that was looked for in the wrong place."""
    for package in _PUBLIC:
        # While the packages import each other, one may be missing or half loaded.
        module = sys.modules.get(package)
        if name in getattr(module, "__dict__", {}).get("__all__", ()):
            return package
    return _NOT_LOADED.get(name)
