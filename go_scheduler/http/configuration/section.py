"""The base of all sections of the configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    SecretStr,
    model_validator,
)
from pydantic_core import PydanticCustomError

from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown, write_duration
from go_scheduler.http.configuration.durations import read_duration

_FROM_FILE = "_file"
_SECRETS = (dict[str, SecretStr], dict[str, SecretStr] | None)


def _duration(value: object) -> timedelta:
    try:
        return read_duration(value, "it")
    except ConfigurationError as error:
        raise PydanticCustomError("duration", "{text}", {"text": str(error)}) from None


def _several(value: object) -> object:
    """A list, or a text with commas, as in the environment."""
    if isinstance(value, str):
        return [each.strip() for each in value.split(",") if each.strip()]
    return value


Duration = Annotated[
    timedelta, BeforeValidator(_duration), PlainSerializer(write_duration)
]
"""Seconds, or a text such as ``5m``."""

Texts = Annotated[tuple[str, ...], BeforeValidator(_several)]
"""A list of texts, or one text with commas between them."""


class Section(BaseModel):
    """A section: unknown settings are refused, and secrets may be in files."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, validate_default=True
    )

    @model_validator(mode="before")
    @classmethod
    def _read_secrets(cls, given: object) -> object:
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            return given
        found = dict(given)
        for name, field in cls.model_fields.items():
            if field.annotation in (SecretStr, SecretStr | None):
                _read_secret(found, name)
            if field.annotation in _SECRETS and name in found:
                found[name] = _with_secrets(found[name])
        return found


def _with_secrets(given: object) -> object:
    if not isinstance(given, Mapping):
        return given
    found = dict(given)
    for name in given:
        if str(name).endswith(_FROM_FILE):
            _read_secret(found, str(name).removesuffix(_FROM_FILE))
    return found


def _read_secret(found: dict[Any, Any], name: str) -> None:
    """Read a secret from the file that ``NAME_file`` names."""
    file = found.pop(f"{name}{_FROM_FILE}", None)
    if file is None:
        return
    if found.get(name) is not None:
        raise PydanticCustomError(
            "twice", "{text}", {"text": f"say {name} or {name}{_FROM_FILE}, not both"}
        )
    try:
        found[name] = Path(str(file)).expanduser().read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        text = f"{name}{_FROM_FILE} names {file}, which cannot be read: {reason}"
        raise PydanticCustomError(
            "file",
            "{text}",
            {"text": text},
        ) from None


@contextmanager
def errors_at(place: str) -> Iterator[None]:
    """Put the path of a setting before errors within the context."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(f"{place}: {error}") from None


def unknown_name(name: str, known: list[str]) -> str:
    """The message about an unknown setting."""
    near = get_close_matches(name.lower(), known, n=1)
    if near:
        return f"there is no such setting: did you mean {near[0]}?"
    text = ", ".join(known)
    return f"there is no such setting as {shown(name)}: known are {text}"
