"""Bodies of health, nodes and counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self
from uuid import UUID

from pydantic import Field

from go_scheduler.http.bodies.body import Answer, Instant
from go_scheduler.models import Counted, State


class HealthAnswer(Answer):
    """That the server is well."""

    status: Literal["ok"] = "ok"


class NodeAnswer(Answer):
    """One start of a scheduler, and what it runs; null: not known."""

    id: UUID
    host: str | None
    pid: int | None
    version: str | None
    queues: list[str] | None
    names: list[str] | None = Field(description="null: any, or more than a thousand.")
    since: Instant
    seen_at: Instant
    stopping: bool
    alive: bool


class NodesAnswer(Answer):
    """The nodes that share the store."""

    items: list[NodeAnswer]


class StatsAnswer(Answer):
    """How much there is."""

    instances: dict[State, int] = Field(
        description="How many are in each state, as far as they are counted."
    )
    more: list[State] = Field(
        description="The states of which there are more than that, or may be."
    )
    nodes: int | None = Field(
        description="How many are alive; null: the caller is restricted."
    )
    workers: int | None = Field(
        description="How many wait for work here; null: no work is handed out here,"
        " or the caller is restricted."
    )

    @classmethod
    def counted(
        cls,
        counts: Mapping[State, Counted],
        *,
        nodes: int | None,
        workers: int | None,
    ) -> Self:
        """The answer for bounded counts."""
        return cls(
            instances={state: each.count for state, each in counts.items()},
            more=[state for state, each in counts.items() if each.more],
            nodes=nodes,
            workers=workers,
        )
