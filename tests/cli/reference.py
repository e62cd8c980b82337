"""Every command and option, as the page on the command line has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typer.main import get_command

from go_scheduler.cli.application import application

if TYPE_CHECKING:
    from collections.abc import Iterator

EVERYWHERE = ("--store", "--server", "--config", "--json", "--yes", "--help")
OF_ITS_OWN = {"serve": ("--store", "--config"), "config": ("--config",)}


def commands() -> dict[str, Any]:
    found: Any = get_command(application)
    return dict(_commands_of(found, ""))


def _commands_of(group: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for name, each in group.commands.items():
        if hasattr(each, "commands"):
            yield from _commands_of(each, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", each


def reference() -> Iterator[tuple[str, str]]:
    """The name and the section of each command."""
    for name, command in commands().items():
        lines = [f"### {name}", "", command.help.strip(), ""]
        rows = [_row(each) for each in command.params if _is_told(name, each)]
        if rows:
            lines += ["| | |", "|---|---|", *rows, ""]
        yield name, "\n".join(lines)


def _is_told(command: str, parameter: Any) -> bool:
    own = OF_ITS_OWN.get(command, ())
    return all(each in own or each not in EVERYWHERE for each in parameter.opts)


def _row(parameter: Any) -> str:
    options = [each for each in parameter.opts if each.startswith("-")]
    names = sorted(options, key=lambda each: not each.startswith("--"))
    shown = ", ".join(f"`{each}`" for each in names)
    metavar = str(parameter.metavar or parameter.name.upper())
    help = parameter.help.replace("|", "\\|")
    return f"| {shown or f'`{metavar}`'} | {help} |"
