"""The commands that put something in: `add`, `preview`, `import`, `export`, `types`."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from uuid import UUID, uuid4

import typer

from go_scheduler.cli.options import (
    Application,
    ExitCode,
    Json,
    Limit,
    Metadata,
    Name,
    Queue,
    Time,
    Where,
    argument,
    duration_of,
    instant_of,
    object_of,
    pairs_of,
    text,
)
from go_scheduler.cli.output import (
    at,
    described,
    document,
    line,
    note,
    print_all,
    print_one,
    runs_where,
    type_lines,
)
from go_scheduler.cli.selecting import pages
from go_scheduler.client.views import MOST_LISTED
from go_scheduler.clock import SystemClock
from go_scheduler.errors import ConfigurationError, GoSchedulerError, StoreError
from go_scheduler.formatting import shown
from go_scheduler.models import DefinitionState, TaskDefinition
from go_scheduler.policies import CatchUp, Overlap, RetryPolicy
from go_scheduler.stores.filters import all_items
from go_scheduler.triggers import (
    DelayTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    OnDemandTrigger,
    Trigger,
)

if TYPE_CHECKING:
    from go_scheduler.http.jobs import TypeAnswer
    from go_scheduler.http.remote import Remote
    from go_scheduler.http.staggering import Spread


_P = TypeVar("_P", RetryPolicy, CatchUp)
OPTIONS = "--phrase, --cron, --every, --at, --after-end, --rrule, --on-demand"


@dataclass(frozen=True, kw_only=True)
class TriggerOptions:
    """The options for a trigger.

    Attributes:
        phrase: In words, such as "every weekday at 9am".
        cron: A cron expression, such as "0 9 * * mon-fri".
        every: The time between two runs, such as 90s, 5m or 1h30m.
        at: Once, at this time, such as 2030-01-01T09:00:00Z.
        after_end: The time from the end of a run to the next one, such as 5m.
        rrule: One or more rules of RFC 5545.
        on_demand: Only when it is asked for.
        timezone: The time zone of a phrase, a cron expression or a rule, such as
            Europe/Berlin; default: UTC.
    """

    PANEL = "When: one of these"
    phrase: str | None = None
    cron: str | None = None
    every: str | None = None
    at: str | None = None
    after_end: str | None = None
    rrule: str | None = None
    on_demand: bool = False
    timezone: str | None = None

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
        # Imported here: other commands do not need phrases.
        from go_scheduler.triggers import CronTrigger, RecurrenceTrigger, parse_phrase

        zone = self.timezone
        if self.phrase is not None:
            return parse_phrase(self.phrase, zone or "UTC", now)
        if self.cron is not None:
            return CronTrigger(self.cron, zone or "UTC")
        if self.rrule is not None:
            return RecurrenceTrigger(self.rrule, zone)
        if "every" in (self.every or "").lower():
            raise ConfigurationError(
                f"--every is a length of time such as 5m, not {shown(self.every)}: for"
                " a phrase use --phrase"
            )
        if (every := duration_of(self.every, "--every")) is not None:
            return IntervalTrigger(every)
        if (after_end := duration_of(self.after_end, "--after-end")) is not None:
            return DelayTrigger(after_end)
        if (at := instant_of(self.at, "--at")) is not None:
            return ExecuteOnceTrigger(at)
        return OnDemandTrigger()


@dataclass(frozen=True, kw_only=True)
class RunPolicies:
    """The options for the policies of a type or a definition.

    Attributes:
        queue: The queue, which says which nodes run it.
        priority: From 0 (first) to 3 (last).
        expire_after: How long a run may take before it is presumed hung.
        timeout: How long a run may take before it is told to end.
        start_timeout: How long a run may wait on a bus until a worker accepts it, and
            again until it begins.
        heartbeat_timeout: How long its worker on a bus may be silent.
        max_attempts: The most runs; after them it has failed.
        retry_delay: The time from a failure to the next run; default: until the longest
            time of a run has passed.
        retry_factor: By how much each delay is multiplied.
        retry_max_delay: The longest delay.
        retry_jitter: The largest random share that is added to a delay.
        overlap: What happens to an instance that is due while another one runs.
        lock: Only one instance with this lock runs at a time.
        max_queue: How many of its instances may wait.
        when_full: What happens to instances beyond that.
    """

    PANEL = "How"
    queue: str = "default"
    priority: int = 1
    expire_after: str | None = None
    timeout: str | None = None
    start_timeout: str | None = None
    heartbeat_timeout: str | None = None
    max_attempts: Annotated[int | None, text(metavar="COUNT")] = None
    retry_delay: str | None = None
    retry_factor: Annotated[float | None, text(metavar="FACTOR")] = None
    retry_max_delay: str | None = None
    retry_jitter: Annotated[float | None, text(metavar="0..1")] = None
    overlap: Overlap = Overlap.ALLOW
    lock: str | None = None
    max_queue: int | None = None
    when_full: Annotated[str, typer.Option(metavar="refuse|drop")] = "refuse"

    def fields(self) -> dict[str, Any]:
        """The fields of a ``TaskDefinition``.

        Raises:
            ConfigurationError: An option is wrong.
        """
        names = ("queue", "priority", "overlap", "lock", "max_queue", "when_full")
        lengths = ("expire_after", "timeout", "start_timeout", "heartbeat_timeout")
        return {
            **{each: getattr(self, each) for each in names},
            **{each: self._length(each) for each in lengths},
            "retry": self._retry(),
        }

    def _length(self, name: str) -> timedelta | None:
        """The duration of an option."""
        return duration_of(getattr(self, name), f"--{name.replace('_', '-')}")

    def _retry(self) -> RetryPolicy | None:
        given: dict[str, object] = {
            "max_attempts": self.max_attempts,
            "factor": self.retry_factor,
            "max_delay": self._length("retry_max_delay"),
            "jitter": self.retry_jitter,
        }
        if self.retry_delay != "none":
            given["delay"] = self._length("retry_delay")
            return _policy(RetryPolicy, given)
        return _policy(RetryPolicy, given, delay=None)


@dataclass(frozen=True, kw_only=True)
class Policies(RunPolicies):
    """The options for the policies of a definition that fires.

    Attributes:
        catch_up: Which missed fire times run later.
        grace: How late an instance may be without being missed.
        within: How old a missed fire time may be to run.
        drop_after: An instance that is later than this is skipped.
        jitter: The largest random delay after a fire time.
        max_per_node: The most instances of it that one node runs at once.
    """

    catch_up: Annotated[str | None, text(metavar="latest|all|none")] = None
    grace: str | None = None
    within: str | None = None
    drop_after: str | None = None
    jitter: str | None = None
    max_per_node: int | None = None

    def fields(self) -> dict[str, Any]:
        """The fields of a ``TaskDefinition``.

        Raises:
            ConfigurationError: An option is wrong.
        """
        return {
            **RunPolicies.fields(self),
            "catch_up": self._catch_up(),
            "jitter": self._length("jitter"),
            "max_per_node": self.max_per_node,
        }

    def _catch_up(self) -> CatchUp | None:
        lengths = ("grace", "within", "drop_after")
        given = {each: self._length(each) for each in lengths}
        return _policy(CatchUp, {"mode": self.catch_up, **given})


def _policy(
    kind: Callable[..., _P], options: Mapping[str, object], **more: object
) -> _P | None:
    """A policy with those options that are not None, and more; None without any."""
    given = {name: each for name, each in options.items() if each is not None} | more
    try:
        return kind(**given) if given else None
    except ConfigurationError as error:
        words = "retry" if kind is RetryPolicy else "catch-up"
        raise ConfigurationError(f"the options for {words}: {error}") from None


app = Application()
_NAMELESS = (
    "it has no name, so only a scheduler with one handler for all runs it: write the"
    " name first, as in `go_scheduler add report --every 5m`"
)


@app.command()
def add(
    when: TriggerOptions,
    policies: Policies,
    where: Where,
    name: Annotated[str | None, argument()] = None,
    id: str | None = None,
    key: str | None = None,
    metadata: Annotated[str | None, text(metavar="JSON")] = None,
    meta: Annotated[list[str] | None, text(metavar="NAME=TEXT")] = None,
    paused: bool = False,
    comment: Annotated[str | None, text("--note")] = None,
    json: Json = False,
) -> None:
    """Schedule a definition: what to run, and when.

    A definition with the same id or key is replaced; an equal one stays as it is.

    Args:
        name: The name of the handler that runs it.
        id: Its id; default: a new one.
        key: What you call it; no other definition has it, and its id is made of it.
        metadata: The metadata that its handler gets.
        meta: A name and its text for the metadata.
        paused: Create it paused.
        comment: Why it is paused.
    """
    definition = TaskDefinition(
        trigger=when.trigger(SystemClock().now()),
        id=_id(id, key),  # type: ignore[arg-type]
        key=key,
        name=name,
        metadata={
            **(object_of(metadata, "--metadata") or {}),
            **pairs_of(meta, "--meta"),
        },
        paused=paused,
        note=comment,
        **policies.fields(),
    )
    with (
        where.client(migrates=True) as client,
        warnings.catch_warnings(record=True, action="always") as told,
    ):
        known = None
        if id is not None or key is not None:
            # Who may write need not be allowed to read.
            with suppress(GoSchedulerError):
                known = client.get_definition(definition.id)
        stored = client.schedule(definition)
    for each in told:
        note(f"beware: {each.message}")
    if name is None:
        note(f"beware: {_NAMELESS}")
    if json:
        document(stored)
        return
    replaces = known is not None and known.revision != stored.revision
    ending = " (replaced)" if replaces else ""
    line(f"{stored.id}  {described(stored.trigger)}{ending}")
    if stored.next_fire_time is not None:
        now = SystemClock().now()
        line(f"fires next at {at(stored.next_fire_time)}{_passed(stored, now)}")


@app.command()
def preview(
    when: TriggerOptions,
    words: Annotated[str | None, argument("[PHRASE]")] = None,
    count: Annotated[int, typer.Option("--count", "-n")] = 5,
    after: Time = None,
    json: Json = False,
) -> None:
    """Show when something would fire, without a store.

    Args:
        words: In words, such as "every other tuesday at 9:34am".
        count: How many fire times.
        after: The first instant; default: now.
    """
    if words is not None:
        if when != TriggerOptions(timezone=when.timezone):
            raise ConfigurationError(
                "say when by a phrase or by an option, not by both"
            )
        when = TriggerOptions(phrase=words, timezone=when.timezone)
    # Imported here: no other command needs it.
    from go_scheduler.triggers import explain
    from go_scheduler.triggers.previews import preview as previewed

    since = instant_of(after, "--after") or SystemClock().now()
    trigger = when.trigger(since)
    if not json:
        line(explain(trigger, since, n=count))
        return
    for each in previewed(trigger, count, since):
        document(each)


def _passed(stored: TaskDefinition, now: datetime) -> str:
    """What happens to a one-off whose time has passed; empty: it has not."""
    at = stored.next_fire_time
    if stored.recurring or at is None or at > now:
        return ""
    if stored.paused:
        comes = "it runs once it is resumed"
    elif stored.catch_up is not None and stored.catch_up.drop_after is not None:
        comes = "it runs unless its drop-after has passed as well"
    else:
        comes = "it runs at once"
    return f", which has passed: {comes}"


def _id(id: str | None, key: str | None) -> UUID | None:
    if id is not None and key is not None:
        raise ConfigurationError("say the id by --id or by --key, not by both")
    try:
        return None if id is None else UUID(id)
    except ValueError:
        raise ConfigurationError(
            "--id must be a UUID; --key makes one of any text"
        ) from None


@dataclass(frozen=True, kw_only=True)
class JitterOptions:
    """The options for the times of jobs and definitions without a time.

    Attributes:
        start: When the first one runs; default: now.
        window: The time over which they are spread evenly, such as 1h.
        interval: The time from one to the next.
        jitter: The largest random delay of each.
    """

    start: Time = None
    window: str | None = None
    interval: str | None = None
    jitter: str | None = None

    def spread(self) -> "Spread":
        """The spread of the options.

        Raises:
            ConfigurationError: An option is wrong.
        """
        # Imported here, as it takes long.
        from go_scheduler.http.staggering import Spread

        if self.window is not None and self.interval is not None:
            raise ConfigurationError("say --window or --interval, not both")
        return Spread(
            start=instant_of(self.start, "--start"),
            window=duration_of(self.window, "--window"),
            interval=duration_of(self.interval, "--interval"),
            jitter=duration_of(self.jitter, "--jitter"),
        )


@app.command("import")
def import_(
    file: Annotated[Path, argument("FILE")],
    where: Where,
    spreading: JitterOptions,
    name: Annotated[str | None, text("--import")] = None,
    json: Json = False,
) -> None:
    """Schedule definitions and submit jobs, one on each line of a file.

    A wrong line is reported and left out. With --import, or with ids and keys, the
    same lines may be imported again.

    Args:
        file: JSON lines, each a definition or a job, or a JSON array of them; - is
            standard input.
        name: The name of the import: repeated with the same name, it makes nothing
            twice.
    """
    from go_scheduler.cli.importing import Imported, lines_of, parts_of
    from go_scheduler.cli.in_process import answering

    spread = spreading.spread()
    name = name or uuid4().hex
    with (
        where.client(migrates=True) as client,
        answering(client) as remote,
        lines_of(file) as (stream, settled),
    ):
        called, lines = parts_of(stream)
        imported = Imported(client, remote, name, spread, called)
        try:
            for problems in imported.take(lines):
                settled(imported.size)
                for each in problems:
                    note(each)
        except (StoreError, KeyboardInterrupt):
            note(
                "what is in stays: go on with the same file by --import"
                f" {name}, and nothing is made twice"
            )
            raise
    print_one(imported.counts, _summary(imported.counts), json=json)
    if imported.counts["wrong"]:
        raise typer.Exit(ExitCode.NOT_SO)


@app.command()
def export(
    where: Where, name: Name = None, queue: Queue = None, metadata: Metadata = None
) -> None:
    """Print definitions as JSON lines, from which `import` makes them anew.

    Those that have completed are left out.
    """
    filters: dict[str, Any] = {
        "name": name,
        "queue": queue,
        "metadata": object_of(metadata, "--metadata"),
    }
    # Imported here, as it takes long.
    from go_scheduler.http.bodies import DefinitionBody

    with where.client() as client:
        read = partial(client.list_definitions, **filters, limit=MOST_LISTED)
        for each in all_items(read):
            # An import of what has ended would run it again.
            if each.state is DefinitionState.COMPLETED:
                continue
            given = DefinitionBody.of(each).items()
            document({field: value for field, value in given if value is not None})


def _summary(counts: Mapping[str, int]) -> str:
    """Such as ``made 1 definition and 2 jobs; 3 known, 0 wrong``."""
    made, others = list(counts.items())[:2], list(counts.items())[2:]
    first = " and ".join(
        f"{n} {what.removesuffix('s') if n == 1 else what}" for what, n in made
    )
    told = [f"{n} {what}" for what, n in others if n or what != "dropped"]
    return f"made {first}; {', '.join(told)}"


types = Application(
    no_args_is_help=True, help="Declare the types of jobs, and look at them."
)

Type = Annotated[str, argument(help="The name of the type.")]


@types.command("list")
def list_(where: Where, limit: Limit = 100, json: Json = False) -> None:
    """List the types that are declared, and those that the server runs itself."""
    with _server(where) as remote:
        found, more = pages(remote.list_types, {}, limit)
    columns: Mapping[str, Callable[[TypeAnswer], str]] = {
        "TYPE": lambda each: each.type,
        "QUEUE": lambda each: each.queue,
        "RUNS": runs_where,
        "DESCRIPTION": lambda each: each.description or "-",
    }
    print_all(found, columns, json=json)
    if more:
        note(f"there are more than {limit}: see --limit")


@types.command()
def show(type: Type, where: Where, json: Json = False) -> None:
    """Show all of a type."""
    with _server(where) as remote:
        found = remote.get_type(type)
    print_one(found, "\n".join(type_lines(found)), json=json)


@types.command()
def put(
    type: Type,
    policies: RunPolicies,
    where: Where,
    description: Annotated[str, text()] = "",
    schema: Annotated[str | None, text(metavar="JSON")] = None,
    owner: str | None = None,
    json: Json = False,
) -> None:
    """Declare a type of jobs for workers, or change it.

    An option that is not given gets its default, also for a type that exists.

    Args:
        description: What it does, for a person to read.
        schema: A JSON schema for payloads.
        owner: The owner of its declared set.
    """
    said = {name: _sent(each) for name, each in policies.fields().items()}
    said |= {"description": description, "owner": owner}
    said["schema"] = object_of(schema, "--schema")
    with _server(where, migrates=True) as remote:
        found = remote.put_type(type, said)
    told = f"{found.definition_id}  {found.type}, in the queue {found.queue}"
    print_one(found, told, json=json)


@types.command()
def delete(type: Type, where: Where, json: Json = False) -> None:
    """Delete a type that was declared, and the jobs of it that have not started."""
    with _server(where) as remote:
        remote.delete_type(type)
    print_one({"type": type, "answer": "deleted"}, f"{type}  deleted", json=json)


@contextmanager
def _server(where: Where, *, migrates: bool = False) -> "Iterator[Remote]":
    """A client of the server, or of a server in front of the store."""
    # Imported here, as it takes long.
    from go_scheduler.cli.in_process import answering

    with where.client(migrates=migrates) as client, answering(client) as remote:
        yield remote


def _sent(value: object) -> Any:
    """A value of a policy in a request."""
    from go_scheduler.http.bodies import RetryBody

    if isinstance(value, RetryPolicy):
        return RetryBody.of(value).model_dump(mode="json")
    return value.total_seconds() if isinstance(value, timedelta) else value
