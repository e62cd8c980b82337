"""The options for the trigger and the policies of a definition."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, TypeVar

import typer

from go_scheduler.cli.options import duration_of, instant_of
from go_scheduler.errors import ConfigurationError
from go_scheduler.policies import CatchUp, Overlap, RetryPolicy
from go_scheduler.triggers import (
    DelayTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    OnDemandTrigger,
    Trigger,
)

WHEN_PANEL = "When: one of these"
OPTIONS = "--phrase, --cron, --every, --at, --after-end, --rrule, --on-demand"


@dataclass(frozen=True, kw_only=True)
class TriggerOptions:
    """The options for a trigger."""

    phrase: Annotated[
        str | None,
        typer.Option(
            help='In words, such as "every weekday at 9am".', rich_help_panel=WHEN_PANEL
        ),
    ] = None
    cron: Annotated[
        str | None,
        typer.Option(
            help='As cron has it, such as "0 9 * * mon-fri".',
            rich_help_panel=WHEN_PANEL,
        ),
    ] = None
    every: Annotated[
        str | None,
        typer.Option(help="Such as 90s, 5m or 1h30m.", rich_help_panel=WHEN_PANEL),
    ] = None
    at: Annotated[
        str | None,
        typer.Option(
            help="Once, such as 2030-01-01T09:00:00Z.", rich_help_panel=WHEN_PANEL
        ),
    ] = None
    after_end: Annotated[
        str | None,
        typer.Option(
            help="So long after the end of each run, such as 5m.",
            rich_help_panel=WHEN_PANEL,
        ),
    ] = None
    rrule: Annotated[
        str | None,
        typer.Option(
            help="A rule of RFC 5545, or several.", rich_help_panel=WHEN_PANEL
        ),
    ] = None
    on_demand: Annotated[
        bool,
        typer.Option(
            "--on-demand", help="Only when asked to.", rich_help_panel=WHEN_PANEL
        ),
    ] = False
    timezone: Annotated[
        str | None,
        typer.Option(
            help="Of a phrase, a cron expression or a rule, such as Europe/Berlin;"
            " else UTC.",
            rich_help_panel=WHEN_PANEL,
        ),
    ] = None

    def trigger(self, now: datetime) -> Trigger:
        """The trigger of the options.

        Raises:
            ConfigurationError: There is none, there are several, or it is wrong.
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
        # Imported here: other commands do not need phrases.
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


HOW_PANEL = "How"
_P = TypeVar("_P", RetryPolicy, CatchUp)


def _option(help: str, *names: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=HOW_PANEL)


@dataclass(frozen=True, kw_only=True)
class RunPolicies:
    """The options for the policies of a type or a definition."""

    queue: Annotated[str, _option("Which nodes run it.")] = "default"
    priority: Annotated[int, _option("From 0, first, to 3, last.")] = 1
    expire_after: Annotated[
        str | None, _option("How long a run may take before it is presumed hung.")
    ] = None
    timeout: Annotated[
        str | None, _option("How long a run may take before it is told to end.")
    ] = None
    start_timeout: Annotated[
        str | None, _option("How long a bus may wait until it is accepted, then begun.")
    ] = None
    heartbeat_timeout: Annotated[
        str | None, _option("How long its worker on a bus may be silent.")
    ] = None
    max_attempts: Annotated[
        int | None, _option("Runs after which it has failed.", metavar="COUNT")
    ] = None
    retry_delay: Annotated[
        str | None,
        _option(
            "How long after a failure it runs again; none: once it has had as long as"
            " a run may take."
        ),
    ] = None
    retry_factor: Annotated[
        float | None, _option("How many times longer each delay is.", metavar="FACTOR")
    ] = None
    retry_max_delay: Annotated[str | None, _option("The longest delay.")] = None
    retry_jitter: Annotated[
        float | None, _option("Up to which part a delay is longer.", metavar="0..1")
    ] = None
    overlap: Annotated[
        Overlap, _option("What becomes of one that is due while another runs.")
    ] = Overlap.ALLOW
    lock: Annotated[
        str | None, _option("Of all with the same lock one runs at a time.")
    ] = None
    max_queue: Annotated[int | None, _option("How many of it may wait.")] = None
    when_full: Annotated[
        str, _option("What becomes of more that is added.", metavar="refuse|drop")
    ] = "refuse"

    def fields(self) -> dict[str, Any]:
        """The fields of a ``TaskDefinition``.

        Raises:
            ConfigurationError: An option is wrong.
        """
        return {
            "queue": self.queue,
            "priority": self.priority,
            "expire_after": duration_of(self.expire_after, "--expire-after"),
            "timeout": duration_of(self.timeout, "--timeout"),
            "start_timeout": duration_of(self.start_timeout, "--start-timeout"),
            "heartbeat_timeout": duration_of(
                self.heartbeat_timeout, "--heartbeat-timeout"
            ),
            "retry": self._retry(),
            "overlap": self.overlap,
            "lock": self.lock,
            "max_queue": self.max_queue,
            "when_full": self.when_full,
        }

    def _retry(self) -> RetryPolicy | None:
        given = _given(
            max_attempts=self.max_attempts,
            factor=self.retry_factor,
            max_delay=duration_of(self.retry_max_delay, "--retry-max-delay"),
            jitter=self.retry_jitter,
        )
        if self.retry_delay == "none":
            given["delay"] = None
        elif self.retry_delay is not None:
            given["delay"] = duration_of(self.retry_delay, "--retry-delay")
        return _policy(RetryPolicy, given)


@dataclass(frozen=True, kw_only=True)
class Policies(RunPolicies):
    """The options for the policies of a definition that fires."""

    catch_up: Annotated[
        str | None, _option("What runs of what was missed.", metavar="latest|all|none")
    ] = None
    grace: Annotated[
        str | None, _option("How late something may be and is not missed.")
    ] = None
    within: Annotated[
        str | None, _option("How late what was missed may be and still runs.")
    ] = None
    drop_after: Annotated[
        str | None, _option("What is later than this is not run at all.")
    ] = None
    jitter: Annotated[
        str | None, _option("Run each up to so much later than its fire time.")
    ] = None
    max_per_node: Annotated[
        int | None, _option("How many of it one node has at once.")
    ] = None

    def fields(self) -> dict[str, Any]:
        """The fields of a ``TaskDefinition``.

        Raises:
            ConfigurationError: An option is wrong.
        """
        return {
            **RunPolicies.fields(self),
            "catch_up": self._catch_up(),
            "jitter": duration_of(self.jitter, "--jitter"),
            "max_per_node": self.max_per_node,
        }

    def _catch_up(self) -> CatchUp | None:
        given = _given(
            mode=self.catch_up,
            grace=duration_of(self.grace, "--grace"),
            within=duration_of(self.within, "--within"),
            drop_after=duration_of(self.drop_after, "--drop-after"),
        )
        return _policy(CatchUp, given)


def _given(**options: object) -> dict[str, object]:
    """The options that are not None."""
    return {name: each for name, each in options.items() if each is not None}


def _policy(kind: Callable[..., _P], given: dict[str, object]) -> _P | None:
    """A policy with the given options; None without any."""
    try:
        return kind(**given) if given else None
    except ConfigurationError as error:
        words = "retry" if kind is RetryPolicy else "catch-up"
        raise ConfigurationError(f"the options for {words}: {error}") from None
