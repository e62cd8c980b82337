"""Policies over the wire."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag

from go_scheduler.http.bodies.body import Body, Seconds, of_field
from go_scheduler.policies import CatchUp, RetryPolicy


class Span(Body):
    """A time, where a number would be a part."""

    seconds: Seconds


def _is_span(value: object) -> str:
    return "{span}" if isinstance(value, dict | Span) else "{part}"


Jitter = Annotated[
    Annotated[float, Field(ge=0, le=1), Tag("{part}")] | Annotated[Span, Tag("{span}")],
    Discriminator(_is_span),
]


class RetryBody(Body):
    """What follows a run that did not succeed."""

    max_attempts: int | None = Field(20, description="null: no end.")
    # No defaults of the schema: they depend on whether a delay is said.
    delay: Seconds | None = Field(
        default_factory=lambda: timedelta(seconds=15),
        description="null: when `expire_after` has passed since the run began. If it is"
        " left out 15.",
    )
    factor: float = Field(
        default_factory=lambda: 2.0,
        description="1 to 1,000. If it is left out 2, or 1 beside a `delay`.",
    )
    max_delay: Seconds | None = Field(
        default_factory=lambda: timedelta(minutes=5),
        description="If it is left out 300, or null beside a `delay`.",
    )
    jitter: Jitter = Field(
        default_factory=lambda: 0.2,
        description='A part of the delay, or a time: `{"seconds": 5}`. If it is left'
        " out 0.2, or 0 beside a `delay`.",
    )
    stop_on: list[str] = Field(
        default_factory=list,
        description="Exceptions after which it is not tried again, by their names.",
    )

    @classmethod
    def of(cls, policy: RetryPolicy) -> Self:
        """That of a policy."""
        most = policy.jitter
        return cls(
            max_attempts=policy.max_attempts,
            delay=policy.delay,
            factor=policy.factor,
            max_delay=policy.max_delay,
            jitter=Span(seconds=most) if isinstance(most, timedelta) else most,
            stop_on=[str(each) for each in policy.stop_on],
        )

    def policy(self, field: str) -> RetryPolicy:
        """The policy.

        Args:
            field: What this is in what was sent.

        Raises:
            Problem: 422.
        """
        said: dict[str, Any] = {
            name: getattr(self, name) for name in self.model_fields_set
        }
        if isinstance(jitter := said.get("jitter"), Span):
            said["jitter"] = jitter.seconds
        with of_field(field, tuple(type(self).model_fields)):
            return RetryPolicy(**said)


class CatchUpBody(Body):
    """What becomes of what is late."""

    mode: Literal["latest", "all", "none"] = "latest"
    grace: Seconds = Field(
        timedelta(seconds=10), description="How late is not missed yet."
    )
    within: Seconds | None = Field(
        None, description="How late what was missed still runs; null: as late as it is."
    )
    drop_after: Seconds | None = Field(
        None, description="What is later never runs; null: however late."
    )

    @classmethod
    def of(cls, policy: CatchUp) -> Self:
        """That of a policy."""
        return cls(
            mode=policy.mode,
            grace=policy.grace,
            within=policy.within,
            drop_after=policy.drop_after,
        )

    def policy(self, field: str) -> CatchUp:
        """The policy.

        Args:
            field: What this is in what was sent.

        Raises:
            Problem: 422.
        """
        with of_field(field, tuple(type(self).model_fields)):
            return CatchUp(
                mode=self.mode,
                grace=self.grace,
                within=self.within,
                drop_after=self.drop_after,
            )
