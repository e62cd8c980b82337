"""Bodies of health, nodes and counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self
from uuid import UUID

from pydantic import Field

from go_scheduler.http.bodies.body import Answer, Instant
from go_scheduler.models import Counted, State


class HealthAnswer(Answer):
    """The server is healthy."""

    status: Literal["ok"] = "ok"


class NodeAnswer(Answer):
    """A node: one start of a scheduler, with its queues and handlers; null: unknown."""

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
    """The numbers of instances, nodes and workers."""

    instances: dict[State, int] = Field(
        description="The number of instances in each state, up to a bound."
    )
    more: list[State] = Field(
        description="The states that have, or may have, more instances than the number."
    )
    nodes: int | None = Field(
        description="The number of live nodes; null: the caller is restricted."
    )
    workers: int | None = Field(
        description="The number of workers that wait for work of this server; null: it"
        " hands out no work, or the caller is restricted."
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
