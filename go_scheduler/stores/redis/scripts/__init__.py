"""The scripts: one for each method of the store, and the parts that they share."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

_SHARED = re.compile(r"\A-- with: ([a-z ]+)\n")


class Script(NamedTuple):
    """A whole script, and the digest by which a server knows it."""

    text: str
    digest: str


@cache
def script(name: str) -> Script:
    """The script of this name, behind the parts that it begins with."""
    own = _read(f"{name}.lua")
    shared = _SHARED.match(own)
    parts = ["base", *(shared[1].split() if shared else ())]
    text = "\n".join([*(_read(f"parts/{part}.lua") for part in parts), own])
    return Script(text, hashlib.sha1(text.encode()).hexdigest())


def _read(path: str) -> str:
    return files(__package__).joinpath(path).read_text(encoding="utf-8")
