"""Templates: what they are given besides their values, all of it escaped."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from go_scheduler.dashboard.words import FILTERS

STATIC = Path(__file__).with_name("static")


@cache
def environment() -> Environment:
    """What renders templates; whatever they show is escaped, in all of them."""
    found = Environment(
        loader=PackageLoader("go_scheduler.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(FILTERS)
    return found


@cache
def version_of(name: str) -> str:
    """What changes whenever a static file does."""
    return hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:16]
