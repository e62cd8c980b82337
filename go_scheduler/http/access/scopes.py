"""Scopes: what callers are granted, from the names that keys and tokens have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.errors import ConfigurationError
from go_scheduler.http.access.caller import SCOPES
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

_ALSO = {
    "jobs:run": frozenset({"jobs:pause", "runs:write"}),
    "admin": frozenset(SCOPES),
}
"""What a name grants that is no scope, or more than one."""


def granted(names: Iterable[str]) -> frozenset[str]:
    """The scopes that names grant; names of others' scopes grant nothing."""
    found: set[str] = set()
    for name in names:
        found |= _ALSO.get(name, {name} & SCOPES.keys())
    return frozenset(found)


def check_scopes(field: str, names: Iterable[str]) -> None:
    """Refuse what a configuration takes for scopes.

    Raises:
        ConfigurationError: One grants nothing.
    """
    for name in names:
        if not granted([name]):
            known = ", ".join(sorted({*SCOPES, *_ALSO}))
            raise ConfigurationError(
                f"{field} has {shown(name)}, which is no scope: there are {known}"
            )
