"""Triggers over the wire: in any of several forms, out by kind and state."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag

from go_scheduler.errors import ConfigurationError
from go_scheduler.http.bodies.body import Answer, Body, Instant, Seconds, of_field
from go_scheduler.json import freeze
from go_scheduler.shown import shown
from go_scheduler.triggers import (
    CronTrigger,
    DelayTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    OnDemandTrigger,
    RecurrenceTrigger,
    Trigger,
    UnknownTrigger,
    dump_trigger,
    load_trigger,
    parse_phrase,
)
from go_scheduler.triggers.asking import described
from go_scheduler.triggers.base import STATE_LIMIT, is_own
from go_scheduler.triggers.registry import find

Gap = Annotated[
    Literal["next", "skip"],
    Field(description="When a local time fires that does not exist."),
]
Twice = Annotated[
    Literal["first", "second", "both"],
    Field(description="Which of two equal local times fires."),
]
Zone = Annotated[str, Field(description="An IANA name.", examples=["Europe/Berlin"])]


class Cron(Body):
    """A cron expression."""

    cron: str = Field(examples=["0 9 * * mon-fri"])
    timezone: Zone = "UTC"
    gap: Gap = "next"
    overlap: Twice = "first"

    def trigger(self, now: datetime | None) -> Trigger:
        """The trigger that it stands for."""
        return CronTrigger(self.cron, self.timezone, gap=self.gap, overlap=self.overlap)


class Every(Body):
    """Elapsed time from an anchor."""

    every: Seconds = Field(description="From one fire time to the next.", examples=[60])
    anchor: Instant | None = Field(None, description="The first fire time.")

    def trigger(self, now: datetime | None) -> Trigger:
        """The trigger that it stands for."""
        return IntervalTrigger(self.every, self.anchor)


class At(Body):
    """Once."""

    at: Instant

    def trigger(self, now: datetime | None) -> Trigger:
        """The trigger that it stands for."""
        return ExecuteOnceTrigger(self.at)


class AfterEnd(Body):
    """So long after each run has ended."""

    after_end: Seconds = Field(examples=[60])

    def trigger(self, now: datetime | None) -> Trigger:
        """The trigger that it stands for."""
        return DelayTrigger(self.after_end)


class Rule(Body):
    """A recurrence rule of RFC 5545."""

    rrule: str = Field(examples=["FREQ=MONTHLY;BYDAY=2TU;BYHOUR=10;BYMINUTE=0"])
    timezone: Zone | None = None
    start: Instant | None = Field(None, description="Instead of a DTSTART.")
    gap: Gap = "next"
    overlap: Twice = "first"

    def trigger(self, now: datetime | None) -> Trigger:
        """The trigger that it stands for."""
        return RecurrenceTrigger(
            self.rrule,
            self.timezone,
            start=self.start,
            gap=self.gap,
            overlap=self.overlap,
        )


class Phrase(Body):
    """An English phrase."""

    phrase: str = Field(examples=["every other tuesday at 9:34am"])
    timezone: Zone = "UTC"

    def trigger(self, now: datetime | None) -> Trigger:
        """The trigger that it stands for."""
        return parse_phrase(self.phrase, self.timezone, now)


class OnDemand(Body):
    """Only when somebody asks for it."""

    on_demand: Literal[True]

    def trigger(self, now: datetime | None) -> Trigger:
        """The trigger that it stands for."""
        return OnDemandTrigger()


class ByKind(Body):
    """Any kind of trigger that the server knows, as it answers them."""

    kind: str = Field(examples=["interval"])
    state: dict[str, Any] = Field(
        default_factory=dict, examples=[{"every": {"microseconds": 60000000}}]
    )

    def trigger(self, now: datetime | None) -> Trigger:
        """The trigger that it stands for."""
        state = freeze(self.state, name="state", limit=STATE_LIMIT)
        if find(self.kind) is None:
            raise ConfigurationError(f"kind {shown(self.kind)} is not known here")
        trigger = load_trigger(self.kind, state)
        if isinstance(trigger, UnknownTrigger):
            raise ConfigurationError(f"state {trigger.reason}")
        return trigger


_FORMS = ("cron", "every", "at", "after_end", "rrule", "phrase", "on_demand", "kind")


def _form_of(value: object) -> str | None:
    """The tag of a form, which ``problems`` leaves out of the path to a field."""
    if not isinstance(value, dict):
        return None
    return next((f"{{{each}}}" for each in _FORMS if each in value), None)


TriggerBody = Annotated[
    Annotated[Cron, Tag("{cron}")]
    | Annotated[Every, Tag("{every}")]
    | Annotated[At, Tag("{at}")]
    | Annotated[AfterEnd, Tag("{after_end}")]
    | Annotated[Rule, Tag("{rrule}")]
    | Annotated[Phrase, Tag("{phrase}")]
    | Annotated[OnDemand, Tag("{on_demand}")]
    | Annotated[ByKind, Tag("{kind}")],
    Discriminator(
        _form_of,
        custom_error_type="form",
        custom_error_message=(
            'it must be an object such as {"cron": "0 9 * * *"}, {"every": 60},'
            ' {"at": "2030-01-01T09:00:00Z"}, {"after_end": 60},'
            ' {"rrule": "FREQ=DAILY"}, {"phrase": "every day at noon"},'
            ' {"on_demand": true} or {"kind": "...", "state": {...}}'
        ),
    ),
]
"""A trigger as it is sent, in one of its forms."""


def trigger_of(body: TriggerBody, now: datetime, *, field: str = "trigger") -> Trigger:
    """The trigger that a body stands for.

    Args:
        body: As it was sent.
        now: The present time, from which some phrases count.
        field: What the body is in what was sent.

    Raises:
        Problem: 422, with the field that is wrong.
    """
    names = tuple(type(body).model_fields)
    # What does not name a field is about the first, after which the form is called.
    with of_field(field, names, otherwise=names[0]):
        return body.trigger(now)


class TriggerAnswer(Answer):
    """A trigger as the server keeps it."""

    kind: str
    state: Any

    @classmethod
    def of(cls, trigger: Trigger) -> Self:
        """That of a trigger."""
        kind, state = dump_trigger(trigger)
        return cls(kind=kind, state=state)


def description_of(trigger: Trigger) -> str | None:
    """A trigger in words; None: it is not known here, or does not say."""
    if isinstance(trigger, UnknownTrigger):
        return None
    try:
        return described(trigger)
    # It may be somebody else's code.
    except Exception:
        return None


def warnings_of(trigger: Trigger, now: datetime) -> list[str]:
    """What the author of a trigger may not have meant, in sentences."""
    return list(trigger.warnings(now)) if is_own(trigger) else []
