"""The section on a message bus: which types of jobs are run by workers there."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pydantic import Field, SecretStr

from go_scheduler.dispatch.dispatcher import Dispatcher
from go_scheduler.dispatch.opening import open_bus
from go_scheduler.errors import ConfigurationError
from go_scheduler.handlers.schema import Schema
from go_scheduler.http.configuration.section import Duration, Section
from go_scheduler.http.configuration.sections import RetrySection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from go_scheduler.dispatch.bus import MessageBus
    from go_scheduler.handlers.job_types import JobTypes

_UNSAID = "Run by a worker on the message bus."


class DispatchTypeSection(Section):
    """A type of jobs that workers on the bus run.

    Attributes:
        description: What it does, for a person to read.
        payload: The JSON schema of its payload.
        queue: Its queue; None: that of the server's types.
        timeout: How long a run may last; None: the scheduler's default.
        expire_after: Likewise, how long it may take before it is presumed hung.
        start_timeout: How long it may wait to be accepted, and then to begin; None:
            that of the section.
        heartbeat_timeout: How long its worker may be silent; None likewise.
        retry: What follows a run that did not succeed; None: the scheduler's default.
    """

    description: str = _UNSAID
    payload: dict[str, Any] = Field(default_factory=dict)
    queue: str | None = None
    timeout: Duration | None = None
    expire_after: Duration | None = None
    start_timeout: Duration | None = None
    heartbeat_timeout: Duration | None = None
    retry: RetrySection | None = None

    def definition(self, queue: str) -> Mapping[str, Any]:
        """What is said of its task.

        Raises:
            ConfigurationError: Its policy is wrong.
        """
        return {
            "queue": self.queue or queue,
            "timeout": self.timeout,
            "expire_after": self.expire_after,
            "start_timeout": self.start_timeout,
            "heartbeat_timeout": self.heartbeat_timeout,
            "retry": None if self.retry is None else self.retry.policy(),
        }


class DispatchSection(Section):
    """A message bus, and what is run over it; see ``Dispatcher``.

    Attributes:
        url: Of the bus; None: there is none.
        namespace: What all its topics begin with.
        topic_per_task: Whether each type has a topic of its own, within its queue.
        start_timeout: How long a run may wait to be accepted, and then to begin.
        heartbeat_timeout: How long a worker may be silent that has begun a run; None:
            as long as its ``expire_after``.
        types: The types of jobs that are run there, by their names.
    """

    url: SecretStr | None = None
    namespace: str = "go_scheduler"
    topic_per_task: bool = False
    start_timeout: Duration = timedelta(minutes=1)
    heartbeat_timeout: Duration | None = None
    types: dict[str, DispatchTypeSection] = Field(default_factory=dict)

    def bus(self) -> MessageBus | None:
        """The bus, connected to nothing yet; None: there is none.

        Raises:
            ConfigurationError: No bus has such a URL, or there are types without one.
        """
        if self.url is not None:
            return open_bus(self.url.get_secret_value())
        if self.types:
            raise ConfigurationError(
                "dispatch.types: they are run over a bus, and dispatch.url names none"
            )
        return None

    def dispatcher(self, bus: MessageBus, types: JobTypes, *, queue: str) -> Dispatcher:
        """What publishes runs, once it has been added to the types that it runs.

        Args:
            bus: Where they are published.
            types: Gets the types.
            queue: That of those that do not say.

        Raises:
            ConfigurationError: A setting is wrong, or a name is taken.
        """
        dispatcher = Dispatcher(
            bus,
            namespace=self.namespace,
            topic_per_task=self.topic_per_task,
            start_timeout=self.start_timeout,
            heartbeat_timeout=self.heartbeat_timeout,
        )
        for name, each in self.types.items():
            try:
                Schema(each.payload, name="payload")  # named as it is here
                add = types.job_type(
                    name,
                    schema=each.payload,
                    description=each.description,
                    **each.definition(queue),
                )
            except ConfigurationError as error:
                raise ConfigurationError(f"dispatch.types.{name}: {error}") from None
            add(dispatcher)
        return dispatcher
