"""Reads definitions from a module or a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown
from go_scheduler.handlers.registry import HandlerRegistry
from go_scheduler.models import TaskDefinition

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime


def declared(source: str, now: datetime) -> Sequence[TaskDefinition]:
    """Read the definitions of a source.

    Args:
        source: ``module:name`` of a list of definitions, of a function without
            arguments that returns one, or of a registry with tasks; or a file of JSON
            lines, as for ``go_scheduler import``.
        now: The present time, from which phrases without a date count.

    Raises:
        ConfigurationError: The source is something else, or a definition is wrong.
    """
    from go_scheduler.http.configuration.imported import imported

    path = Path(source)
    if path.is_file():
        return list(_lines(path, now))
    if ":" not in source:
        raise ConfigurationError(
            f"there is no file {source}; definitions in a module are named as"
            " myapp.jobs:definitions"
        )
    found = imported(source)
    if isinstance(found, HandlerRegistry):
        return [each.definition for each in found.tasks.values()]
    if callable(found):
        try:
            found = found()
        except Exception as error:
            raise ConfigurationError(
                f"{source}, called without arguments, raised {type(error).__name__}:"
                f" {error}"
            ) from error
    if not isinstance(found, list | tuple) or not all(
        isinstance(each, TaskDefinition) for each in found
    ):
        raise ConfigurationError(
            f"{source} must be a list of definitions, a function that returns one, or a"
            f" HandlerRegistry, not {shown(found)}"
        )
    return found


def _lines(path: Path, now: datetime) -> Iterable[TaskDefinition]:
    from go_scheduler.cli.importing import definition_of_line

    for number, each in enumerate(path.read_bytes().splitlines(), 1):
        if not each.strip():
            continue
        try:
            yield definition_of_line(each, now)
        except ConfigurationError as error:
            raise ConfigurationError(f"{path}, line {number}: {error}") from None
