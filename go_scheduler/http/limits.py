"""What a request may take of the server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a request may take of the server.

    Attributes:
        threads: How many calls may wait for the store at once.
    """

    threads: int = 32
