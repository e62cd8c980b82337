"""The file of the configuration: where it is, what it has, and in which line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from go_scheduler.errors import ConfigurationError

NAME = "go_scheduler.yaml"
AT_HOME = Path("~/.config/go_scheduler") / NAME

Place = tuple[str | int, ...]
"""A setting, by the names of its sections and its own."""


@dataclass(frozen=True)
class SettingsFile:
    """What a file has, and in which line.

    Attributes:
        path: Of the file; None: there is none.
        data: What it has.
        lines: In which line each setting begins.
    """

    path: Path | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    lines: Mapping[Place, int] = field(default_factory=dict)

    def origin(self, place: Place) -> str | None:
        """Where a setting is, for a person to look; None: it is not there."""
        line = self.lines.get(place)
        return None if line is None else f"{self.path}, line {line}"


def find_file(named: Path | None) -> Path | None:
    """The file to read: the one that is named, else the first that is there.

    Raises:
        ConfigurationError: The one that is named is not there.
    """
    if named is not None:
        if not named.expanduser().is_file():
            raise ConfigurationError(f"there is no file {named}")
        return named.expanduser()
    places = (Path(NAME), AT_HOME.expanduser())
    return next((each for each in places if each.is_file()), None)


def read_file(path: Path | None) -> SettingsFile:
    """What a file has; nothing, if there is none.

    Raises:
        ConfigurationError: It cannot be read, or is no YAML of settings.
    """
    if path is None:
        return SettingsFile()
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} is no text in UTF-8") from None
    try:
        data, lines = _read(text, path)
    except yaml.MarkedYAMLError as error:
        line = getattr(error.problem_mark, "line", 0) + 1
        raise ConfigurationError(
            f"{path}, line {line}: it is no YAML: {error.problem}"
        ) from None
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path}: it is no YAML: {error}") from None
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise ConfigurationError(
            f"{path}, line 1: it must have sections, such as `server:`, and below"
            " them settings, such as `port: 8710`"
        )
    return SettingsFile(path, data, lines)


def _read(text: str, path: Path) -> tuple[Any, dict[Place, int]]:
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        lines: dict[Place, int] = {}
        _note_lines(node, (), lines, path)
        return None if node is None else loader.construct_document(node), lines
    finally:
        loader.dispose()


def _note_lines(
    node: yaml.Node | None, place: Place, lines: dict[Place, int], path: Path
) -> None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = (*place, str(key.value))
            line = key.start_mark.line + 1
            if below in lines:
                raise ConfigurationError(
                    f"{path}, line {line}: {key.value} is there twice, first in line"
                    f" {lines[below]}"
                )
            lines[below] = line
            _note_lines(value, below, lines, path)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            lines[*place, index] = value.start_mark.line + 1
            _note_lines(value, (*place, index), lines, path)
