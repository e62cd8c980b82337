"""Public names of packages, imported from their modules when first asked for."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def on_demand(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The ``__getattr__`` and the ``__dir__`` of a package that imports on demand.

    Type checkers are shown the names by imports under ``TYPE_CHECKING``. A module that
    has the name of something it holds cannot be among them: once imported, it stands in
    the package under that name.

    Args:
        package: Its ``__name__``.
        homes: The module of each name, below the package.
    """
    names = vars(sys.modules[package])

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"{package}.{homes[name]}"), name)
        # From now on it is found as any other name.
        names[name] = found
        return found

    def list_names() -> list[str]:
        return sorted({*names, *homes})

    return get, list_names
