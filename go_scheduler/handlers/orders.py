"""What an executor is given: a payload, read into a value of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from go_scheduler.errors import ConfigurationError
from go_scheduler.handlers.payload import Payload
from go_scheduler.raised import Fail

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from go_scheduler.json import JSON
    from go_scheduler.models import TaskInstance

_Order = TypeVar("_Order")


class Orders(Payload, Generic[_Order]):
    """A payload that is the arguments of a function, which makes an order of them.

    Args:
        task: What the executor is called in errors.
        make: The function. It raises ``ConfigurationError`` for what the executor
            would not do.
        schema: Makes the JSON schema; None: that is made of the parameters.
    """

    def __init__(
        self,
        task: str,
        make: Callable[..., _Order],
        schema: Callable[[], dict[str, JSON]] | None = None,
    ) -> None:
        super().__init__(task, make)
        self._make = make
        self._schema = schema

    def __reduce__(self) -> tuple[object, ...]:
        # To other processes, where its checks are made anew.
        return type(self), (self._task, self._make, self._schema)

    def schema(self) -> dict[str, JSON]:
        """The JSON schema of what is stored."""
        return super().schema() if self._schema is None else self._schema()

    def write(self, given: Mapping[str, object]) -> dict[str, JSON]:
        """A payload as it is stored, if there is an order in it.

        Raises:
            ConfigurationError: There is none, or the executor would not do it.
        """
        stored = super().write(given)
        self._make(**self.read(stored))
        return stored

    def of(self, instance: TaskInstance) -> _Order:
        """The order of an instance: its payload, or else its definition's metadata.

        Raises:
            Fail: There is none that the executor would do.
        """
        given = instance.metadata if instance.payload is None else instance.payload
        try:
            return self._make(**self.read(given))
        except ConfigurationError as error:
            raise Fail(str(error)) from None
