"""What people would use instead, with the best settings that were found for each.

``pip install -e '.[benchmarks]'`` installs them, but for APScheduler 4, which has to
have an environment of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.experiment import Call, peer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.experiment import Variant

_ON_REDIS = {
    "sorted_set": (
        "sorted set and list",
        "as goscheds does it, in Python: one thread moves what is due from the set to"
        " the list, one by one, and one takes it from there, each under a lock",
    ),
    "rq": ("rq", "SimpleWorker, which forks for no job, one"),
    "dramatiq": ("dramatiq", "8 threads"),
    "celery": ("Celery", "one thread (solo), no results, prefetches 1,000"),
}


def on_redis(function: str, arguments: Mapping[str, object]) -> Sequence[Variant]:
    """The peers that run on Redis, each by its function of this name."""
    return [
        peer(
            name,
            Call(f"peers.{module}:{function}", arguments),
            "redis",
            settings=settings,
        )
        for module, (name, settings) in _ON_REDIS.items()
    ]
