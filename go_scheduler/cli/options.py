"""Arguments, options and exit codes that several commands have."""

from __future__ import annotations

import inspect
import json
import re
from copy import copy
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import typer

from go_scheduler.errors import (
    BusUnavailableError,
    ConfigurationError,
    GoSchedulerError,
    StoreError,
)
from go_scheduler.formatting import read_duration, shown
from go_scheduler.http.remote_errors import NotAllowedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import timedelta

    from go_scheduler.json import JSON


_ITEM = re.compile(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", re.MULTILINE)
"""A name, and what is said of it, on one or more lines."""


def documented(function: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: its docstring says what each of its options is.

    A parameter that is annotated with a dataclass stands for a group of options, one
    for each field. ``Attributes`` of the group say what they are; a group may have a
    ``PANEL``, a heading in the help.
    """
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
