"""Finds and reads the configuration file, without the sections of a server."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import ConstructorError

from go_scheduler.errors import ConfigurationError

NAME = "go_scheduler.yaml"
AT_HOME = Path("~/.config/go_scheduler") / NAME

_TEXT, _MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"
# The messages of PyYAML have the value, which may be a secret.
_REMEDIES = {
    "could not determine a constructor": "what begins with ! has to be in quotes",
    "found undefined alias": "what begins with * has to be in quotes",
    "found unconstructable recursive node": "an alias repeats itself",
}


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


def read_file(path: Path | None) -> Mapping[str, Any]:
    """Read a file; without a path there are no settings.

    Raises:
        ConfigurationError: The file cannot be read, or is no YAML of settings.
    """
    if path is None:
        return {}
    if (data := read_yaml(read_text(path), str(path))) is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigurationError(
            f"{path}: it must have sections, such as `server:`, and below them"
            " settings, such as `port: 8710`"
        )
    return data


def read_text(path: Path, setting: str = "") -> str:
    """Read a text file.

    Args:
        path: The file.
        setting: What an error begins with.

    Raises:
        ConfigurationError: The file cannot be read.
    """
    try:
        return path.expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text in UTF-8"
        raise ConfigurationError(f"{setting}{path} cannot be read: {reason}") from None


def read_yaml(text: str, origin: str) -> Any:
    """Parse YAML.

    Args:
        text: The text.
        origin: The file or variable of the text, for errors.

    Raises:
        ConfigurationError: The text is no YAML.
    """
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
            origin = f"{origin}, line {error.problem_mark.line + 1}"
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        found = (_REMEDIES[each] for each in _REMEDIES if problem.startswith(each))
        reason = next(found, problem)
        raise ConfigurationError(f"{origin}: it is no YAML: {reason}") from None
    except RecursionError:
        raise ConfigurationError(f"{origin}: it is nested too deep") from None


class _Loader(yaml.SafeLoader):
    """Refuses a name that is no text, or that a mapping has twice."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        names: set[str] = set()
        for key, _ in node.value:
            if key.tag == _MERGE:
                continue
            problem = None
            if key.tag != _TEXT or not key.value.isprintable():
                problem = "a name such as on or 7 has to be in quotes"
            elif key.value in names:
                problem = f"{key.value} is there twice"
            if problem is not None:
                raise ConstructorError(problem=problem, problem_mark=key.start_mark)
            # PyYAML 6.0.4 compares the names of merged mappings by identity.
            key.value = sys.intern(key.value)
            names.add(key.value)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            # Deep: so an alias within its own anchor is an error.
            return super().construct_object(node, deep=True)
        except ValueError as error:
            # A day that no month has, or a number of thousands of digits.
            raise ConstructorError(
                problem=str(error).partition(";")[0], problem_mark=node.start_mark
            ) from None


def store_url(named: Path | None) -> str | None:
    """The URL of the store in the configuration; None: it has none.

    If the file has the URL, the other sections are not read.

    Args:
        named: The file; None: as for ``load_configuration``.

    Raises:
        ConfigurationError: The file or a setting is wrong.
    """
    if not any(each.upper().startswith("GO_SCHEDULER_STORE__") for each in os.environ):
        data = read_file(find_file(named))
        if not data:
            return None
        with suppress(ConfigurationError):
            match data.get("store"):
                case str(url):
                    return url
                case {"url": str(url), **more} if not more:
                    return url
                case {"url_file": str(file), **more} if not more:
                    return read_text(Path(file)).strip()
    # Imported only now, as it takes longer than a command. It reports what is wrong.
    from go_scheduler.http.configuration.loading import load_configuration

    secret = load_configuration(named).store.url
    return None if secret is None else secret.get_secret_value()
