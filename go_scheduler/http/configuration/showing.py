"""Shows the configuration: each setting, and where it was set."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from pydantic import BaseModel, SecretStr

from go_scheduler.formatting import write_duration

if TYPE_CHECKING:
    from go_scheduler.http.configuration.files import Place
    from go_scheduler.http.configuration.loading import Loaded

MASK = "***"
_SCHEME = re.compile(r"[a-z][\w+-]*", re.ASCII)
_NAME = re.compile(r"[\w.-]*")
_PLACE = re.compile(
    r"(\[[\da-fA-F:.]+\]|[^:?#;%\s/]*)(:\d+)?(/[^?#;%\s]*)?(\?namespace=[\w.%+:-]+)?",
    re.ASCII,
)
"""Parts of a URL that hold no secret: host, port, path, and namespace."""


def settings_of(loaded: Loaded) -> Iterator[tuple[Place, object, str]]:
    """Each setting with its value and where it was set; secrets are masked."""
    for place, value in _leaves(loaded.settings, ()):
        yield place, value, loaded.origin(place)


def as_yaml(loaded: Loaded) -> Iterator[str]:
    """The lines of a file with the same settings; secrets are masked."""
    shown: Place = ()
    for place, value, origin in settings_of(loaded):
        for depth, name in enumerate(place[:-1]):
            if place[: depth + 1] != shown[: depth + 1]:
                heading = "-" if isinstance(name, int) else f"{name}:"
                yield f"{'  ' * depth}{heading}"
        shown = place
        yield f"{'  ' * (len(place) - 1)}{place[-1]}: {_written(value)}  # {origin}"


def _leaves(value: object, place: Place) -> Iterator[tuple[Place, object]]:
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _leaves(getattr(value, name), (*place, name))
    elif isinstance(value, Mapping) and value:
        for name, each in value.items():
            yield from _leaves(each, (*place, str(name)))
    elif _has_sections(value):
        assert isinstance(value, Sequence)
        for index, each in enumerate(value):
            yield from _leaves(each, (*place, index))
    else:
        yield place, _plain(value)


def _has_sections(value: object) -> bool:
    return isinstance(value, tuple) and any(isinstance(e, BaseModel) for e in value)


def _plain(value: object) -> object:
    """A value in YAML and JSON."""
    if isinstance(value, SecretStr):
        return _masked(value.get_secret_value())
    if isinstance(value, timedelta):
        return write_duration(value)
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)


def _masked(secret: str) -> str:
    """A mask; of a URL only the password is masked."""
    scheme, found, rest = secret.partition("://")
    user, at, place = rest.rpartition("@")
    name, colon, _ = user.partition(":")
    parts = ((_SCHEME, scheme), (_NAME, name), (_PLACE, place))
    if not found or not all(each.fullmatch(part) for each, part in parts):
        return MASK
    return f"{scheme}://{name}{':' + MASK if colon else ''}{at}{place}"


def _written(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
