"""Loads the settings of a server, and knows where each was set."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from go_scheduler.errors import ConfigurationError
from go_scheduler.http.configuration.files import (
    NotYamlError,
    Place,
    SettingsFile,
    find_file,
    read_file,
    read_yaml,
)
from go_scheduler.http.configuration.job_type_sections import TypesSection
from go_scheduler.http.configuration.section import Section, unknown_name
from go_scheduler.http.configuration.sections import (
    AccessSection,
    DashboardSection,
    DispatchSection,
    JobsSection,
    LogSection,
    SchedulerSection,
    ServerSection,
    WorkSection,
)
from go_scheduler.http.configuration.store_section import StoreSection
from go_scheduler.pydantic_messages import worded

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

PREFIX = "GO_SCHEDULER_"
SERVER = f"{PREFIX}SERVER"
"""The variable with the URL of a server, for the command line; it is no setting."""

_NAMES_NO_SECTION = f"it names no section: settings are written as {SERVER}__PORT is"


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
        # A variable of a setting wins over one of its section: it comes later.
        self.env_vars = {
            name.lower(): variables[name]
            for name in sorted(variables, key=_depth)
            if name.upper() != SERVER
        }

    def decode_complex_value(
        self, field_name: str, field: FieldInfo, value: Any
    ) -> Any:
        """Parse a list or section in YAML or JSON; any other value is a text."""
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
    """The variable of each setting that the environment has.

    Raises:
        ConfigurationError: A variable names no section.
    """
    found: dict[Place, str] = {}
    texts: set[str] = set()
    for name in sorted(variables, key=_depth):
        if not name.upper().startswith(PREFIX) or name.upper() == SERVER:
            continue
        place = tuple(name.upper().removeprefix(PREFIX).lower().split("__"))
        if place[0] in sections:
            # A plain text, such as the URL of the store, is the whole section.
            if place[0] in texts:
                continue
            if len(place) == 1 and not _is_section(variables[name]):
                texts.add(place[0])
            found |= dict.fromkeys(_said_in(place, variables[name]), name)
        elif place[0].startswith("_"):
            raise ConfigurationError(f"{name}: {_NAMES_NO_SECTION}")
        elif len(place) > 1:
            raise ConfigurationError(f"{name}: {unknown_name(place[0], sections)}")
    return found


def _depth(name: str) -> int:
    return name.count("__")


def _is_section(value: str) -> bool:
    return value.lstrip().startswith("{")


def _said_in(place: Place, value: str) -> Iterator[Place]:
    """The settings in a variable: itself, or each setting of a section."""
    if not _is_section(value):
        yield place
        return
    try:
        lines = read_yaml(value)[1]
    except NotYamlError:
        # ``decode_complex_value`` reports it.
        return
    for inner in lines:
        yield (*place, *inner)


class Configuration(BaseSettings, Section):
    """All settings of a server, by section.

    Attributes:
        store: The store of definitions and instances.
        server: Address, TLS and limits.
        scheduler: The arguments of the scheduler.
        jobs: The defaults of jobs.
        work: Work for workers over HTTP.
        access: Authentication.
        dashboard: The dashboard.
        types: The types of jobs that the server runs itself.
        dispatch: A message bus, and the types that run over it.
        log: The log.
    """

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        env_prefix="GO_SCHEDULER_",
        env_nested_delimiter="__",
    )

    store: StoreSection = StoreSection()
    server: ServerSection = ServerSection()
    scheduler: SchedulerSection = SchedulerSection()
    jobs: JobsSection = JobsSection()
    work: WorkSection = WorkSection()
    access: AccessSection = AccessSection()
    dashboard: DashboardSection = DashboardSection()
    types: TypesSection = TypesSection()
    dispatch: DispatchSection = DispatchSection()
    log: LogSection = LogSection()


_SECRET_FILE = "_file"
_NO_SECTION = "it must have settings of its own, as in {name: value}"
_IN_YAML = {
    "model_type": _NO_SECTION,
    "dict_type": _NO_SECTION,
    "string_type": "it must be a text; what YAML reads as something else, such as no,"
    " 7 or 2030-01-01, has to be in quotes",
    "tuple_type": "it must be a list, said as a whole: [a, b]",
}


@dataclass(frozen=True)
class Loaded:
    """The configuration, and where each setting was set.

    Attributes:
        settings: The configuration.
        file: The configuration file.
        variables: The environment variable of each setting.
        options: The option of the command of each setting.
    """

    settings: Configuration
    file: SettingsFile
    variables: Mapping[Place, str]
    options: Mapping[Place, str]

    def origin(self, place: Place) -> str:
        """Where a setting was set, for people to read."""
        secret = (*place[:-1], f"{place[-1]}{_SECRET_FILE}")
        of_file = {each: f"{self.file.origin(each)}" for each in self.file.lines}
        before: list[Place] = []
        for said in (self.options, self.variables, of_file):
            before += said
            for each in (place, secret, *_upwards(place[:-1])):
                if each in said and (
                    each in (place, secret) or _is_whole(each, before)
                ):
                    return said[each]
        return "default"

    def near(self, place: Place) -> str:
        """Where a wrong setting, or its section, was set."""
        for each in _upwards(place):
            said = self.options.get(each) or self.variables.get(each)
            if found := said or self.file.origin(each):
                return found
        for each in _upwards(place):
            for below, name in self.variables.items():
                if below[: len(each)] == each:
                    return name
        return "configuration"

    def named(self, place: Place) -> str:
        """Where a setting was set, and its path; an option has no path."""
        near = self.near(place)
        if near == self.options.get(place):
            return near
        return f"{near}: {'.'.join(map(str, place))}"


def load_configuration(
    named: Path | None = None,
    *,
    options: Mapping[str, tuple[Place, object]] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Loaded:
    """Load the configuration: options win over the environment, and that over a file.

    Args:
        named: The file; None: ``go_scheduler.yaml`` in the working folder, or else in
            ``~/.config/go_scheduler``, if there is one.
        options: The options of the command, each with its setting and value.
        environment: The environment; None: that of this process.

    Raises:
        ConfigurationError: A line for each wrong setting: where it was set, and what
            is wrong.
    """
    variables = os.environ if environment is None else environment
    file = read_file(find_file(named))
    named_by = places_in(variables, [*Configuration.model_fields])
    said = {place: name for name, (place, _) in (options or {}).items()}
    given = _nested(options or {})

    class Read(Configuration):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            *others: PydanticBaseSettingsSource,
            **more: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            of_file = InitSettingsSource(settings_cls, dict(file.data))
            return init_settings, Environment(settings_cls, variables), of_file

    try:
        settings = Read(**given)
    except SettingsError as error:
        raise ConfigurationError(f"{error.__cause__}") from None
    except ValidationError as error:
        loaded = Loaded(Configuration.model_construct(), file, named_by, said)
        problems = [
            f"{loaded.named(place)}: {text}" for place, text in _problems(error)
        ]
        raise ConfigurationError("\n".join(problems)) from None
    return Loaded(settings, file, named_by, said)


def settings_below(section: Place) -> list[str]:
    """The names of the settings of a section; empty for a value."""
    model: type[BaseModel] | None = Configuration
    for name in section:
        if model is not None and name in model.model_fields:
            model = _model_of(model.model_fields[str(name)].annotation)
        # Otherwise it is the index of a list, or a name that users choose.
    return [] if model is None else [*model.model_fields]


def _nested(options: Mapping[str, tuple[Place, object]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for place, value in options.values():
        section, name = place
        found.setdefault(str(section), {})[name] = value
    return found


def _problems(error: ValidationError) -> Iterator[tuple[Place, str]]:
    """The wrong settings, each with a message."""
    for each in error.errors():
        place = each["loc"]
        if each["type"] == "extra_forbidden":
            yield place, unknown_name(str(place[-1]), settings_below(place[:-1]))
        else:
            yield place, _IN_YAML.get(each["type"]) or worded(each)


def _model_of(annotation: Any) -> type[BaseModel] | None:
    """The section in an annotation; None: the setting is a value."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = map(_model_of, get_args(annotation))
    return next((each for each in found if each is not None), None)


def _is_whole(section: Place, said: Sequence[Place]) -> bool:
    """Whether a section was set as a whole, and not by its settings."""
    depth = len(section)
    return not any(each[:depth] == section != each for each in said)


def _upwards(place: Place) -> Iterator[Place]:
    """A setting, and then its sections, the innermost first."""
    for length in range(len(place), 0, -1):
        yield place[:length]
