"""What a Redis store keeps of nodes, and of what they have counted."""

from __future__ import annotations

import json

from go_scheduler.models import Histogram, QueueStats
from go_scheduler.stores.messages import Announcement, NodeContact
from go_scheduler.stores.redis.rows import given_time, read_id, time_text
from go_scheduler.stores.sql.rows import from_microseconds, to_microseconds

_ANNOUNCED = ("host", "pid", "version", "queues", "names", "stopping")


def write_announcement(announced: Announcement) -> str:
    """The text of what a node tells, but for its id."""
    values = {name: getattr(announced, name) for name in _ANNOUNCED}
    lease = announced.lease
    values["lease"] = None if lease is None else to_microseconds(lease)
    return json.dumps(values)


def read_contact(node: str, text: str) -> NodeContact:
    """The contact that is kept of a node."""
    values = json.loads(text[36:])
    for name in ("queues", "names"):
        if values[name] is not None:
            values[name] = tuple(values[name])
    if values["lease"] is not None:
        values["lease"] = from_microseconds(values["lease"])
    announced = Announcement(node=read_id(node), **values)  # type: ignore[arg-type]
    return NodeContact(
        announced=announced, since=given_time(text[:18]), until=given_time(text[18:36])
    )


def write_stats(stats: QueueStats) -> dict[str, object]:
    """What a script keeps of counts."""
    buckets = [
        [None if bound is None else to_microseconds(bound), count]
        for bound, count in stats.lateness.buckets()
    ]
    return {
        "at": time_text(stats.at),
        "queue": stats.queue,
        "value": json.dumps({"ended": dict(stats.ended), "lateness": buckets}),
    }


def read_stats(member: str, text: str) -> QueueStats:
    """The counts that a script has kept."""
    values = json.loads(text)
    buckets = (
        (None if bound is None else from_microseconds(bound), count)
        for bound, count in values["lateness"]
    )
    return QueueStats(
        at=given_time(member[:18]),
        queue=member[18:].partition("\0")[0],
        ended=values["ended"],
        lateness=Histogram.of(buckets),
    )
