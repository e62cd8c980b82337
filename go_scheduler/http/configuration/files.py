"""Finds and reads the configuration file: YAML, with the line of each setting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from go_scheduler.errors import ConfigurationError

Place = tuple[str | int, ...]
"""The path of a setting: the names of its sections, and its own."""

_MOST = 100_000
_TEXT, _MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"
# The messages of PyYAML have the value, which may be a secret.
_QUOTES = {
    "could not determine a constructor": "what begins with ! has to be in quotes",
    "found undefined alias": "what begins with * has to be in quotes",
}


class NotYamlError(ConfigurationError):
    """A text is no YAML, or cannot be settings.

    Attributes:
        line: The line; 0: unknown.
    """

    def __init__(self, text: str, line: int = 0) -> None:
        super().__init__(text)
        self.line = line


def read_yaml(text: str) -> tuple[Any, dict[Place, int]]:
    """Parse YAML; returns the data, and the line of each setting.

    Raises:
        NotYamlError: The text is no YAML, or too complex.
    """
    lines = _Lines()
    try:
        return _read(text, lines), lines.found
    except yaml.MarkedYAMLError as error:
        line = getattr(error.problem_mark, "line", 0) + 1
        raise NotYamlError(f"it is no YAML: {_told(error)}", line) from None
    except yaml.YAMLError as error:
        reason = str(error).partition("\n")[0]
        raise NotYamlError(f"it is no YAML: {reason}") from None
    except NotYamlError:
        raise
    except ValueError as error:
        # A day that no month has, or a number of thousands of digits.
        reason = str(error).partition(";")[0]
        raise NotYamlError(f"a value cannot be read: {reason}", lines.last) from None
    except RecursionError:
        raise NotYamlError("it is nested too deep") from None


def _read(text: str, lines: _Lines) -> Any:
    loader = _Loader(text)
    try:
        if (node := loader.get_single_node()) is None:
            return None
        lines.note(node, ())
        return loader.construct_document(node)
    finally:
        loader.dispose()


class _Loader(yaml.SafeLoader):
    """Merges a list of mappings as YAML 1.1 says: the first value of a key wins.

    In PyYAML 6.0.4 the last value wins.
    """

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        node.value = [
            (key, self._one(value) if key.tag == _MERGE else value)
            for key, value in node.value
        ]
        super().flatten_mapping(node)

    def _one(self, merged: yaml.Node) -> yaml.Node:
        if not isinstance(merged, yaml.SequenceNode) or not all(
            isinstance(each, yaml.MappingNode) for each in merged.value
        ):
            return merged
        pairs: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for each in merged.value:
            self.flatten_mapping(each)
            pairs = {pair[0].value: pair for pair in each.value} | pairs
        return yaml.MappingNode("tag:yaml.org,2002:map", [*pairs.values()])


def _told(error: yaml.MarkedYAMLError) -> str:
    problem = str(error.problem)
    for begin, remedy in _QUOTES.items():
        if problem.startswith(begin):
            return remedy
    return problem


class _Lines:
    """Finds the line of each setting.

    Attributes:
        found: The lines, by setting.
        last: The line that was looked at last.
    """

    def __init__(self) -> None:
        self.found: dict[Place, int] = {}
        self.last = 0
        self._left = _MOST
        self._above: set[int] = set()

    def note(self, node: yaml.Node, place: Place, *, is_merged: bool = False) -> None:
        """Note a node and all below it; a merged node only adds missing settings."""
        self.last = node.start_mark.line + 1
        self._left -= 1
        if self._left < 0 or id(node) in self._above:
            raise NotYamlError(
                "an alias repeats too much: it has what no settings have", self.last
            )
        self._above.add(id(node))
        if isinstance(node, yaml.MappingNode):
            # A merged value only counts where the mapping has no value of its own.
            for key, value in sorted(node.value, key=_is_merge):
                if _is_merge((key, value)):
                    self._merge(value, place)
                else:
                    self._note_named(key, value, place, is_merged=is_merged)
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                self.found[*place, index] = value.start_mark.line + 1
                self.note(value, (*place, index))
        self._above.remove(id(node))

    def _merge(self, merged: yaml.Node, place: Place) -> None:
        is_list = isinstance(merged, yaml.SequenceNode)
        for each in merged.value if is_list else [merged]:
            self.note(each, place, is_merged=True)

    def _note_named(
        self, key: yaml.Node, value: yaml.Node, place: Place, *, is_merged: bool
    ) -> None:
        line = key.start_mark.line + 1
        if key.tag != _TEXT or not key.value.isprintable():
            raise NotYamlError(
                f"{_shown(key)} is no name as YAML reads it: put it in quotes", line
            )
        below = (*place, str(key.value))
        if below not in self.found:
            self.found[below] = line
            self.note(value, below)
        elif not is_merged:
            raise NotYamlError(
                f"{key.value} is there twice, first in line {self.found[below]}", line
            )


def _is_merge(named: tuple[yaml.Node, yaml.Node]) -> bool:
    return named[0].tag == _MERGE


def _shown(key: yaml.Node) -> str:
    return str(key.value) if isinstance(key, yaml.ScalarNode) else "a list or a mapping"


NAME = "go_scheduler.yaml"
AT_HOME = Path("~/.config/go_scheduler") / NAME


@dataclass(frozen=True)
class SettingsFile:
    """A configuration file.

    Attributes:
        path: Its path; None: there is no file.
        data: Its data.
        lines: The line of each setting.
    """

    path: Path | None = None
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)
    lines: Mapping[Place, int] = field(default_factory=dict)

    def origin(self, place: Place) -> str | None:
        """The file and line of a setting; None: it is not set there."""
        line = self.lines.get(place)
        return None if line is None else f"{self.path}, line {line}"


def find_file(named: Path | None) -> Path | None:
    """The file to read: the named file, or the first default file that exists.

    Raises:
        ConfigurationError: The named file does not exist.
    """
    if named is not None:
        if not named.expanduser().is_file():
            raise ConfigurationError(f"there is no file {named}")
        return named.expanduser()
    places = (Path(NAME), AT_HOME.expanduser())
    return next((each for each in places if each.is_file()), None)


def read_file(path: Path | None) -> SettingsFile:
    """Read a file; without a path there are no settings.

    Raises:
        ConfigurationError: The file cannot be read, or is no YAML of settings.
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
