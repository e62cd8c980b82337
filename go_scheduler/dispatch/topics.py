"""The names of topics."""

from __future__ import annotations

from dataclasses import dataclass

from go_scheduler.checks import check_name, check_type
from go_scheduler.errors import ConfigurationError
from go_scheduler.shown import shown

LONGEST_TOPIC = 255
"""The most bytes of a topic's name, in UTF-8: what AMQP allows."""
MOST_PREFETCHED = 65_535
"""The most that a subscription may hold, for the same reason."""
_ESCAPED = str.maketrans({"%": "%25", ".": "%2E", "\n": "%0A", "\r": "%0D"})


@dataclass(frozen=True, slots=True)
class Topics:
    """Where which messages go.

    Attributes:
        namespace: What they all begin with: schedulers that have nothing to do with
            each other share a bus by different ones.

    Raises:
        ConfigurationError: The namespace is no short text, holds what cannot be
            printed, or is the ``amq`` that brokers keep for themselves.
    """

    namespace: str = "go_scheduler"

    def __post_init__(self) -> None:
        namespace = check_name("namespace", self.namespace)
        if not namespace.isprintable() or f"{namespace}.".startswith("amq."):
            raise ConfigurationError(
                "namespace must be of characters that can be printed, and not begin"
                f" with amq, which brokers keep for themselves: {shown(namespace)}"
            )

    def runs(self, queue: str, task: str | None = None) -> str:
        """Where runs of a queue are published, or those of one task in that queue."""
        return self._named("run", queue, *() if task is None else (task,))

    @property
    def statuses(self) -> str:
        """Where workers say what becomes of runs."""
        return self._named("statuses")

    def control(self, worker: str) -> str:
        """Where one worker is told what to cancel."""
        return self._named("control", worker)

    def _named(self, *parts: str) -> str:
        # A dot within a name would make one topic of two, and RabbitMQ leaves line
        # breaks out of what it is told to make.
        escaped = [each.translate(_ESCAPED) for each in parts]
        topic = ".".join([self.namespace, *escaped])
        return check_topic(topic)


def check_topic(topic: object) -> str:
    """A topic, if a bus can have it.

    Raises:
        ConfigurationError: It is no text, empty, or too long.
    """
    check_type("topic", topic, str)
    assert isinstance(topic, str)
    if not 0 < (size := len(topic.encode())) <= LONGEST_TOPIC:
        raise ConfigurationError(
            f"topic {shown(topic)} has {size} bytes, and a bus takes 1 to"
            f" {LONGEST_TOPIC}: give what it is made of shorter names"
        )
    return topic


def check_prefetch(prefetch: object) -> None:
    """Refuse what is no number of zero or more.

    Raises:
        ConfigurationError: It is another.
    """
    if type(prefetch) is not int or not 0 <= prefetch <= MOST_PREFETCHED:
        raise ConfigurationError(
            f"prefetch must be a number of 0 to {MOST_PREFETCHED}: {shown(prefetch)}"
        )
