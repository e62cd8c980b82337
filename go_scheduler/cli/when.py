"""The options that say when something is to run."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import typer

from go_scheduler.cli.reading import duration_of, instant_of
from go_scheduler.errors import ConfigurationError
from go_scheduler.triggers import (
    DelayTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    OnDemandTrigger,
    Trigger,
)

PANEL = "When: one of these"
OPTIONS = "--phrase, --cron, --every, --at, --after-end, --rrule, --on-demand"


@dataclass(frozen=True, kw_only=True)
class When:
    """The options that say when something is to run."""

    phrase: Annotated[
        str | None,
        typer.Option(
            help='In words, such as "every weekday at 9am".', rich_help_panel=PANEL
        ),
    ] = None
    cron: Annotated[
        str | None,
        typer.Option(
            help='As cron has it, such as "0 9 * * mon-fri".', rich_help_panel=PANEL
        ),
    ] = None
    every: Annotated[
        str | None,
        typer.Option(help="Such as 90s, 5m or 1h30m.", rich_help_panel=PANEL),
    ] = None
    at: Annotated[
        str | None,
        typer.Option(help="Once, such as 2030-01-01T09:00:00Z.", rich_help_panel=PANEL),
    ] = None
    after_end: Annotated[
        str | None,
        typer.Option(
            help="So long after the end of each run, such as 5m.", rich_help_panel=PANEL
        ),
    ] = None
    rrule: Annotated[
        str | None,
        typer.Option(help="A rule of RFC 5545, or several.", rich_help_panel=PANEL),
    ] = None
    on_demand: Annotated[
        bool,
        typer.Option("--on-demand", help="Only when asked to.", rich_help_panel=PANEL),
    ] = False
    timezone: Annotated[
        str | None,
        typer.Option(
            help="Of a phrase, a cron expression or a rule, such as Europe/Berlin;"
            " else UTC.",
            rich_help_panel=PANEL,
        ),
    ] = None

    def trigger(self, now: datetime) -> Trigger:
        """The trigger that they say.

        Raises:
            ConfigurationError: They say none, or several, or what is none.
        """
        words = (self.phrase, self.cron, self.rrule)
        given = (*words, self.every, self.at, self.after_end)
        count = sum(each is not None for each in given) + self.on_demand
        if count != 1:
            only = ", and not by several" if count else ""
            raise ConfigurationError(f"say when by one of {OPTIONS}{only}")
        if self.timezone is not None and not any(each is not None for each in words):
            raise ConfigurationError(
                "--timezone is for --phrase, --cron and --rrule: a time says its own,"
                " and a duration has none"
            )
        return self._worded(now) or self._other()

    def _worded(self, now: datetime) -> Trigger | None:
        # Imported here: no other command needs phrases, nor what they may say.
        from go_scheduler.triggers import CronTrigger, RecurrenceTrigger, parse_phrase

        zone = self.timezone
        if self.phrase is not None:
            return parse_phrase(self.phrase, zone or "UTC", now)
        if self.cron is not None:
            return CronTrigger(self.cron, zone or "UTC")
        if self.rrule is not None:
            return RecurrenceTrigger(self.rrule, zone)
        return None

    def _other(self) -> Trigger:
        if (every := duration_of(self.every, "--every")) is not None:
            return IntervalTrigger(every)
        if (after_end := duration_of(self.after_end, "--after-end")) is not None:
            return DelayTrigger(after_end)
        if (at := instant_of(self.at, "--at")) is not None:
            return ExecuteOnceTrigger(at)
        return OnDemandTrigger()
