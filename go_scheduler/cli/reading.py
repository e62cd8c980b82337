"""What users type, as values."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

from go_scheduler.errors import ConfigurationError
from go_scheduler.http.configuration.durations import read_duration
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from go_scheduler.json import JSON


def instant_of(text: str | None, option: str) -> datetime | None:
    """An instant, as RFC 3339 and ISO 8601 write it; None is none.

    Raises:
        ConfigurationError: It is none, or does not say in which zone.
    """
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f"{option} must be a time such as 2030-01-01T09:00:00Z, not {shown(text)}"
        ) from None
    if found.tzinfo is None:
        raise ConfigurationError(
            f"{option} does not say in which time zone: write {text}Z for UTC, or an"
            f" offset such as {text}+01:00"
        )
    return found


def duration_of(text: str | None, option: str) -> timedelta | None:
    """A duration; None is none.

    Raises:
        ConfigurationError: It is none.
    """
    return None if text is None else read_duration(text, option)


def object_of(text: str | None, option: str) -> Mapping[str, JSON] | None:
    """A JSON object; None is none.

    Raises:
        ConfigurationError: It is none.
    """
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ConfigurationError(
            f"{option} must be a JSON object such as '{{\"order\": 7}}', not"
            f" {shown(text)}"
        )
    return found
