"""What follows the ? of a URL of PostgreSQL or CockroachDB: options of libpq."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

import psycopg

from go_scheduler.errors import ConfigurationError
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

OF_THE_DIALECT = "disable_cockroachdb_telemetry"
"""An option for SQLAlchemy's dialect of CockroachDB, and not for libpq."""


def check_options(given: Mapping[str, object]) -> None:
    """See that libpq knows each option of a URL, and that it is there once.

    Raises:
        ConfigurationError: One is unknown, or there more than once.
    """
    # The libpq that is there says which it has: they differ by its version.
    known = {each.keyword.decode() for each in psycopg.pq.Conninfo.parse(b"")}
    for name, value in given.items():
        if name not in known | {OF_THE_DIALECT}:
            # With an @ in it, it may be a part of a password.
            if "@" in str(given):
                raise ConfigurationError("an option of the URL is none of libpq's")
            near = get_close_matches(name, known, n=1)
            raise ConfigurationError(
                f"the option {shown(name)} of the URL is none of libpq's"
                + (f": did you mean {near[0]}?" if near else "")
            )
        if not isinstance(value, str):
            raise ConfigurationError(f"the URL has the option {name} more than once")
