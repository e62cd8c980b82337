"""Settings in the environment: ``GO_SCHEDULER_SERVER__PORT`` is ``server.port``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_settings import BaseSettings, EnvSettingsSource

from go_scheduler.errors import ConfigurationError
from go_scheduler.http.configuration.section import unknown_name
from go_scheduler.http.configuration.yaml_text import NotYamlError, read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic.fields import FieldInfo

    from go_scheduler.http.configuration.yaml_text import Place

PREFIX = "GO_SCHEDULER_"
SERVER = f"{PREFIX}SERVER"
"""The URL of a server, for the command line: it says nothing of the section."""

_NO_SECTION = f"it names no section: settings are written as {SERVER}__PORT is"


class Environment(EnvSettingsSource):
    """Reads settings from the environment.

    Args:
        settings: The model.
        variables: The environment.
    """

    def __init__(
        self, settings: type[BaseSettings], variables: Mapping[str, str]
    ) -> None:
        super().__init__(settings)
        self._variables = variables
        # A setting goes before the section that it is of, whichever came first.
        self.env_vars = {
            name.lower(): variables[name]
            for name in sorted(variables, key=_depth)
            if name.upper() != SERVER
        }

    def decode_complex_value(
        self, field_name: str, field: FieldInfo, value: Any
    ) -> Any:
        """A list or a section that is given whole, as YAML or JSON; else the text."""
        if value.strip() == "null":
            return None
        if not value.lstrip().startswith(("[", "{")):
            return value
        try:
            return read_yaml(value)[0]
        except NotYamlError as error:
            names = (name for name, each in self._variables.items() if each == value)
            raise ConfigurationError(f"{next(names)}: {error}") from None


def places_in(variables: Mapping[str, str], sections: list[str]) -> Mapping[Place, str]:
    """Which variable says which setting.

    Raises:
        ConfigurationError: One is of no section.
    """
    found: dict[Place, str] = {}
    texts: set[str] = set()
    for name in sorted(variables, key=_depth):
        if not name.upper().startswith(PREFIX) or name.upper() == SERVER:
            continue
        place = tuple(name.upper().removeprefix(PREFIX).lower().split("__"))
        if place[0] in sections:
            # What is said of a section by a text is all of it, as with the store.
            if place[0] in texts:
                continue
            if len(place) == 1 and not _is_section(variables[name]):
                texts.add(place[0])
            found |= dict.fromkeys(_said_in(place, variables[name]), name)
        elif place[0].startswith("_"):
            raise ConfigurationError(f"{name}: {_NO_SECTION}")
        elif len(place) > 1:
            raise ConfigurationError(f"{name}: {unknown_name(place[0], sections)}")
    return found


def _depth(name: str) -> int:
    return name.count("__")


def _is_section(value: str) -> bool:
    return value.lstrip().startswith("{")


def _said_in(place: Place, value: str) -> Iterator[Place]:
    """The settings that a variable says: of a section that it gives, each."""
    if not _is_section(value):
        yield place
        return
    try:
        lines = read_yaml(value)[1]
    except NotYamlError:
        # It is refused with its variable, where it is read.
        return
    for inner in lines:
        yield (*place, *inner)
