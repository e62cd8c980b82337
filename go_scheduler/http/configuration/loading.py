"""Loads the settings of a server, checks them, and shows where each was set."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import (
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsError,
)

from go_scheduler.errors import ConfigurationError
from go_scheduler.handlers.job_types import JobTypes
from go_scheduler.http.access.loopback import is_loopback
from go_scheduler.http.configuration.files import find_file, read_file, read_yaml
from go_scheduler.http.configuration.sections import (
    PREFIX,
    Configuration,
    Section,
    ServerSection,
)
from go_scheduler.pydantic_messages import worded
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores import MemoryStore
from go_scheduler.stores.opening import open_store

Place = tuple[str | int, ...]
"""The path of a setting: the names of its sections, and its own."""


@dataclass(frozen=True)
class Sources:
    """Tells where each setting was set.

    Attributes:
        file: The path of the configuration file; None: there is no file.
        settings: The name of each option, variable and file, and the settings there;
            the first one that has a setting wins.
    """

    file: Path | None
    settings: Sequence[tuple[str, Mapping[str, Any]]]

    def origin(self, place: Place) -> str:
        """The option, variable or file of a setting, or ``default``."""
        in_file = (*place[:-1], f"{place[-1]}_file")
        return self._origin(place) or self._origin(in_file) or "default"

    def named(self, place: Place) -> str:
        """The origin and the path of a wrong setting; an option has no path."""
        above = (place[:length] for length in range(len(place), 0, -1))
        origin = next(filter(None, map(self._origin, above)), "configuration")
        if origin.startswith("--"):
            return origin
        return f"{origin}: {'.'.join(map(str, place))}"

    def _origin(self, place: Place) -> str | None:
        """The first source of a value, or the last one of a section."""
        origin = None
        for name, settings in self.settings:
            for value in _found(settings, place):
                origin = name
                if not isinstance(value, dict):
                    return origin
        return origin


def _found(settings: Any, place: Place) -> Iterator[object]:
    """The value of a setting or section, if there is one."""
    for name in place:
        # The URL of the store may be its whole section.
        if isinstance(settings, str):
            break
        try:
            settings = settings[name]
        except (LookupError, TypeError):
            return
    yield settings


def settings_of(settings: Configuration) -> Iterator[tuple[Place, object, str]]:
    """Each setting with its value and its origin; secrets are masked."""
    for place, value in _leaves(settings.model_dump(mode="json"), ()):
        yield place, value, settings.sources.origin(place)


def as_yaml(settings: Configuration) -> Iterator[str]:
    """The lines of a file with the same settings; secrets are masked."""
    above: Place = ()
    for place, value, origin in settings_of(settings):
        for depth, name in enumerate(place[:-1]):
            if place[: depth + 1] != above[: depth + 1]:
                heading = "-" if isinstance(name, int) else f"{name}:"
                yield f"{'  ' * depth}{heading}"
        above = place
        text = json.dumps(value, ensure_ascii=False)
        yield f"{'  ' * (len(place) - 1)}{place[-1]}: {text}  # {origin}"


def _leaves(value: Any, place: Place) -> Iterator[tuple[Place, object]]:
    """The settings of a section, of its sections, and of the sections in a list."""
    below: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        below = value.items()
    elif isinstance(value, list) and all(isinstance(e, dict) and e for e in value):
        below = enumerate(value)
    if not value or not below:
        yield place, value
    for name, each in below:
        yield from _leaves(each, (*place, name))


class _Variable(EnvSettingsSource):
    """Reads the settings in an environment variable; lists and sections are YAML."""

    def __init__(self, name: str) -> None:
        super().__init__(Configuration)
        self.env_vars = {name.lower(): os.environ[name]}
        self._name = name

    def decode_complex_value(
        self, field_name: str, field: FieldInfo, value: Any
    ) -> Any:
        if value.strip() == "null":
            return None
        if not value.lstrip().startswith(("[", "{")):
            return value
        return read_yaml(value, self._name)


def _in_variables() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The settings in each variable; that of a setting precedes that of its section."""

    def order(name: str) -> tuple[bool, int]:
        return name.upper() != f"{PREFIX}STORE", -name.count("__")

    for name in sorted(os.environ, key=order):
        # GO_SCHEDULER_SERVER is the URL of a server, for the command line.
        if not name.upper().startswith(PREFIX) or name.upper() == f"{PREFIX}SERVER":
            continue
        try:
            settings = _Variable(name)()
        except SettingsError as error:
            raise ConfigurationError(f"{error.__cause__}") from None
        # A variable such as GO_SCHEDULER_PORT is of Kubernetes, and no setting.
        if not settings and "__" in name:
            section, _, _ = name[len(PREFIX) :].lower().partition("__")
            settings = {section: {}}
        yield name, settings


_NO_SECTION = "it must have settings of its own, as in {name: value}"
_IN_YAML = {
    "model_type": _NO_SECTION,
    "dict_type": _NO_SECTION,
    "string_type": "it must be a text; what YAML reads as something else, such as no,"
    " 7 or 2030-01-01, has to be in quotes",
    "tuple_type": "it must be a list, said as a whole: [a, b]",
}


def load_configuration(
    named: Path | None = None,
    *,
    options: Mapping[str, tuple[str, object]] | None = None,
) -> Configuration:
    """Load the configuration: options win over the environment, and that over a file.

    Args:
        named: The file; None: ``go_scheduler.yaml`` in the working folder, or else in
            ``~/.config/go_scheduler``, if there is one.
        options: By the name of each option, its setting and its value; None: it was
            not given.

    Raises:
        ConfigurationError: A line for each wrong setting: where it was set, and what
            is wrong.
    """
    given: list[tuple[str, Mapping[str, Any]]] = []
    for option, (setting, value) in (options or {}).items():
        if value is not None:
            section, _, name = setting.partition(".")
            given.append((option, {section: {name: value}}))
    file = find_file(named)
    # YamlConfigSettingsSource would take the last one of two equal names, and its
    # errors have values, which may be secrets.
    in_file = (f"{file}", read_file(file))
    found: list[tuple[str, Mapping[str, Any]]] = []
    for name, each in [*given, *_in_variables(), in_file]:
        for _, first in found:
            each = _behind(first, each)
        found.append((name, each))
    sources = Sources(file, found)

    class Read(Configuration):
        @classmethod
        def settings_customise_sources(
            cls, *_: Any, **__: Any
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return tuple(
                InitSettingsSource(cls, dict(each)) for _, each in sources.settings
            )

    try:
        settings = Read()
    except ValidationError as error:
        problems = [
            f"{sources.named(each['loc'])}: {_reason(each)}" for each in error.errors()
        ]
        raise ConfigurationError("\n".join(problems)) from None
    settings._sources = sources
    return settings


def _behind(first: Any, later: Any) -> Any:
    """A later source, without the file of a secret if the first has the secret itself.

    It is also without a secret if the first has its file.
    """
    if not isinstance(first, Mapping) or not isinstance(later, Mapping):
        return later
    hidden = {each.removesuffix("_file") for each in first if each.endswith("_file")}
    hidden |= {f"{each}_file" for each in first}
    return {
        name: _behind(first.get(name), each)
        for name, each in later.items()
        if name not in hidden
    }


def _reason(error: Mapping[str, Any]) -> str:
    """What is wrong with a setting."""
    if error["type"] != "extra_forbidden":
        return _IN_YAML.get(error["type"]) or worded(error)
    name, known = str(error["loc"][-1]), settings_below(error["loc"][:-1])
    if name.startswith("_"):
        return (
            "there is no such setting; a variable has one underscore before its"
            f" section, and two before its setting: {PREFIX}SERVER__PORT"
        )
    if near := get_close_matches(name.lower(), known, n=1):
        return f"there is no such setting: did you mean {near[0]}?"
    return f"there is no such setting: known are {', '.join(known)}"


def settings_below(section: Place) -> list[str]:
    """The names of the settings of a section; empty for a value."""
    model: type[BaseModel] | None = Configuration
    for name in section:
        if model is not None and name in model.model_fields:
            model = _model_of(model.model_fields[str(name)].annotation)
        # Otherwise it is the index of a list, or a name that users choose.
    return [] if model is None else [*model.model_fields]


def _model_of(annotation: Any) -> type[BaseModel] | None:
    """The section in an annotation; None: the setting is a value."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = map(_model_of, get_args(annotation))
    return next((each for each in found if each is not None), None)


def check(settings: Configuration) -> None:
    """Refuse settings with which a server cannot start.

    Raises:
        ConfigurationError: A line for each wrong setting: where it was set, and what
            is wrong.
    """
    problems: dict[Place, str] = {}
    for place, make in _parts(settings):
        try:
            make()
        except ConfigurationError as error:
            # An error of a section is left out after an error of its settings.
            if not any(each[: len(place)] == place for each in problems):
                # The message begins with the name of an argument, often of a setting.
                first = str(error).partition(" ")[0].rstrip(",:")
                exact = (*place, first) if first in settings_below(place) else place
                problems[exact] = f"{settings.sources.named(exact)}: {error}"
    if problems:
        raise ConfigurationError("\n".join(problems.values()))


def _parts(settings: Configuration) -> Iterator[tuple[Place, Callable[[], object]]]:
    """The objects to make of the settings, by the paths of these; inner ones first."""
    if settings.types.shell is not None:
        # First: it is told beside what is wrong with the commands.
        yield ("types", "shell"), partial(_check_shell, settings)
    yield from _sections(settings, ())
    if (url := settings.store.url) is not None:
        yield ("store", "url"), lambda: open_store(url.get_secret_value()).close()
    yield ("server", "host"), partial(_check_host, settings)
    yield ("server", "tls_certificate"), partial(_check_tls, settings.server)
    arguments = settings.scheduler.as_arguments
    yield ("scheduler",), lambda: Scheduler(None, MemoryStore(), **arguments())
    yield ("work",), lambda: settings.work.hand_out(Scheduler(None, MemoryStore()))
    types, dispatch = settings.types, settings.dispatch
    yield ("types",), types.job_types
    for name, each in dispatch.types.items():
        make = partial(each.job_type, JobTypes(), name, queue=types.queue)
        yield ("dispatch", "types", name), make
    if dispatch.url is not None or dispatch.types:
        yield ("dispatch",), partial(_check_dispatch, settings)


def _sections(value: Any, place: Place) -> Iterator[tuple[Place, Callable[[], object]]]:
    """What the sections within a value make, and it itself, if it is one."""
    below: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, Section):
        below = value
    elif isinstance(value, dict):
        below = value.items()
    elif isinstance(value, tuple):
        below = enumerate(value)
    for name, each in below:
        yield from _sections(each, (*place, name))
    if isinstance(value, Section):
        yield place, value.made


def _check_host(settings: Configuration) -> None:
    host = settings.server.host
    if settings.access.is_open and not is_loopback(host):
        raise ConfigurationError(
            f"without authentication it is for this machine alone, and {host} is for"
            " others as well: set up access.keys or access.oidc, or leave server.host"
            " at 127.0.0.1"
        )


def _check_shell(settings: Configuration) -> None:
    if settings.access.is_open:
        raise ConfigurationError(
            "it runs commands, and without authentication any program on this machine"
            " could have them run: set up access.keys or access.oidc"
        )


def _check_dispatch(settings: Configuration) -> None:
    types = settings.types
    with settings.dispatch.opened(types.job_types(), queue=types.queue):
        pass


def _check_tls(server: ServerSection) -> None:
    if server.tls_certificate is None or server.tls_key is None:
        return
    password = server.tls_key_password
    secret = None if password is None else password.get_secret_value()
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            # Without any password OpenSSL would ask for it in the terminal.
            server.tls_certificate,
            server.tls_key,
            secret or "",
        )
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"{server.tls_certificate}, with tls_key {server.tls_key}, cannot be used:"
            f" {error}"
        ) from None
