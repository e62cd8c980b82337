"""The file of the configuration: where it is, what it has, and in which line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from go_scheduler.errors import ConfigurationError
from go_scheduler.http.configuration.yaml_text import NotYamlError, Place, read_yaml

NAME = "go_scheduler.yaml"
AT_HOME = Path("~/.config/go_scheduler") / NAME


@dataclass(frozen=True)
class SettingsFile:
    """What a file has, and in which line.

    Attributes:
        path: Of the file; None: there is none.
        data: What it has.
        lines: In which line each setting begins.
    """

    path: Path | None = None
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)
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
        data, lines = read_yaml(text)
    except NotYamlError as error:
        where = f"{path}, line {error.line}" if error.line else f"{path}"
        raise ConfigurationError(f"{where}: {error}") from None
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise ConfigurationError(
            f"{path}, line 1: it must have sections, such as `server:`, and below"
            " them settings, such as `port: 8710`"
        )
    return SettingsFile(path, data, lines)
