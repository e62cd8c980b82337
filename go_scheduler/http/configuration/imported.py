"""Imports an object of a user's module, named as ``module:name``."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from importlib import import_module
from operator import attrgetter
from pathlib import Path

from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown


def imported(named: str) -> object:
    """Import an object from a module that is installed or in the working folder.

    Args:
        named: For example ``myapp.jobs:registry``.

    Raises:
        ConfigurationError: There is no such module or object, or the import fails.
    """
    module, colon, name = named.partition(":")
    if not (module and colon and name):
        raise ConfigurationError(
            f"{shown(named)} must be a module and a name in it, such as"
            " myapp.jobs:registry"
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{named}: there is no module {error.name}, neither installed nor in {here}"
        ) from error
    except Exception as error:
        raise ConfigurationError(
            f"{named}: {module} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    try:
        return attrgetter(name)(found)
    except AttributeError:
        near = get_close_matches(name, vars(found), n=1)
        meant = f": did you mean {near[0]}?" if near else ""
        raise ConfigurationError(f"{named}: {module} has no {name}{meant}") from None


def imported_handler(named: str) -> object:
    """Import a handler, or a registry of handlers.

    Raises:
        ConfigurationError: It is neither, or cannot be imported.
    """
    found = imported(named)
    if not callable(found):
        raise ConfigurationError(
            f"{named} is neither a handler nor a registry of handlers: {shown(found)}"
        )
    return found
