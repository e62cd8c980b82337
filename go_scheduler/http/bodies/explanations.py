"""Previews and reasons over the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

from pydantic import ConfigDict, Field

from go_scheduler.http.bodies.body import Answer, Asked, Body, Id, Instant, if_given
from go_scheduler.http.bodies.instances import InstanceAnswer
from go_scheduler.http.bodies.system import NodeAnswer
from go_scheduler.http.bodies.triggers import (
    TriggerAnswer,
    TriggerBody,
    description_of,
    warnings_of,
)
from go_scheduler.triggers import PreviewedTime, Trigger, preview
from go_scheduler.triggers.asking import asked
from go_scheduler.triggers.base import utc
from go_scheduler.why.answer import Because, Why

Count = Annotated[int, Field(ge=1, le=1000, description="How many fire times.")]


class PreviewedAnswer(Answer):
    """One fire time, and what the clocks do to it."""

    at: Instant = Field(description="In UTC.")
    local: str = Field(description="In the schedule's own zone.")
    effect: str | None

    @classmethod
    def of(cls, time: PreviewedTime) -> Self:
        """That of a previewed time."""
        return cls(
            at=utc(time.at, name="at"), local=time.at.isoformat(), effect=time.effect
        )


class PreviewAnswer(Answer):
    """The next fire times of a trigger."""

    trigger: TriggerAnswer
    description: str | None
    times: list[PreviewedAnswer]
    warnings: list[str] = Field(description="What its author may not have meant.")

    @classmethod
    def of(cls, trigger: Trigger, n: int, after: datetime) -> Self:
        """That of a trigger; it is asked here."""
        times = asked(trigger, lambda: preview(trigger, n, after))
        return cls(
            trigger=TriggerAnswer.of(trigger),
            description=description_of(trigger),
            times=[PreviewedAnswer.of(each) for each in times],
            warnings=warnings_of(trigger, after),
        )


class PreviewAsked(Asked):
    """How many fire times of a definition, and from when on."""

    n: Count = 10
    after: Instant | None = Field(None, description="null: the present time.")


class PreviewBody(Body):
    """Which fire times of a trigger that need not be stored."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"trigger": {"phrase": "every weekday at 9:00"}, "n": 3}]
        }
    )

    trigger: TriggerBody
    n: Count = 10
    after: Instant | None = Field(None, description="null: the present time.")


class WhyAsked(Asked):
    """About which instant."""

    at: Instant | None = Field(None, description="null: how things stand now.")


class WhyOfAsked(WhyAsked):
    """About what, and which instant."""

    definition_id: Id = Field(description="That of a definition, or of an instance.")


class WhyAnswer(Answer):
    """What happened, happens or will happen, and what decided it."""

    definition_id: UUID
    at: Instant
    because: Because
    text: str = Field(description="The same in plain sentences.")
    instance: InstanceAnswer | None
    node: NodeAnswer | None = Field(description="null without the scope `admin`, too.")
    holder: InstanceAnswer | None = Field(description="The one that it waits for.")
    since: Instant | None
    until: Instant | None
    reason: str | None
    nearest: list[PreviewedAnswer]

    @classmethod
    def of(cls, why: Why) -> Self:
        """That of an answer."""
        return cls(
            definition_id=why.definition_id,
            at=why.at,
            because=why.because,
            text=why.text,
            instance=if_given(why.instance, InstanceAnswer.of),
            node=if_given(why.node, NodeAnswer.of),
            holder=if_given(why.holder, InstanceAnswer.of),
            since=why.since,
            until=why.until,
            reason=why.reason,
            nearest=[PreviewedAnswer.of(each) for each in why.nearest],
        )
