"""Loads configurations, and lists every setting with its default."""

from __future__ import annotations

import json
import os
import re
from datetime import timedelta
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args
from unittest.mock import patch

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from go_scheduler.formatting import write_duration
from go_scheduler.http.configuration.loading import load_configuration
from go_scheduler.http.configuration.sections import Configuration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo


DOCS = Path(__file__).parents[3] / "docs"
YAML = re.compile(r"^```yaml[^\n]*\n(\w.*?)^```$", re.MULTILINE | re.DOTALL)
"""The configurations that a page shows."""


def load(text: str = "", **environment: str) -> Configuration:
    """The configuration of a file with this text, and of these variables."""
    Path("settings.yaml").write_text(text)
    with patch.dict(os.environ, environment):
        return load_configuration(Path("settings.yaml"))


def places(
    model: type[BaseModel] = Configuration, above: str = ""
) -> Iterator[tuple[str, str]]:
    """The name of each setting, and its default as a page shows it."""
    for name, field in model.model_fields.items():
        place = f"{above}{name}"
        section = _section_of(field.annotation)
        if section is None:
            yield place, default_of(field)
        else:
            yield from places(section, f"{place}{_between(field.annotation)}.")


def default_of(field: FieldInfo) -> str:
    if field.is_required():
        return "needed"
    default = field.get_default(call_default_factory=True)
    assert default is not PydanticUndefined
    if default is None:
        return "none"
    if isinstance(default, timedelta):
        return f"`{write_duration(default)}`"
    if isinstance(default, tuple | dict):
        return f"`{json.dumps(default)}`"
    if isinstance(default, bool | int | float):
        return f"`{json.dumps(default)}`"
    return f"`{default}`" if str(default) else "empty"


def _section_of(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type):
        return annotation if issubclass(annotation, BaseModel) else None
    for each in get_args(annotation):
        if each not in (str, NoneType, Ellipsis) and (found := _section_of(each)):
            return found
    return None


def _between(annotation: Any) -> str:
    """The part of a name that stands for one of several sections."""
    text = str(annotation)
    if text.startswith("dict"):
        return ".NAME"
    return "[]" if text.startswith("tuple") else ""
