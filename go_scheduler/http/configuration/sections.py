"""The sections of the configuration, but for types of jobs."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, SecretStr, model_validator

from go_scheduler.dispatch.dispatcher import Dispatcher
from go_scheduler.dispatch.opening import open_bus
from go_scheduler.errors import ConfigurationError
from go_scheduler.handlers.schema import Schema
from go_scheduler.http.access.authentication import Access, OpenAccess
from go_scheduler.http.access.bearer import BearerAccess
from go_scheduler.http.access.issuer import OidcIssuer
from go_scheduler.http.access.keys import ApiKey
from go_scheduler.http.access.rate_limits import Rate, Waiting
from go_scheduler.http.configuration.section import Duration, Section, Texts
from go_scheduler.http.jobs.jitter import JobDefaults
from go_scheduler.http.limits import Limits
from go_scheduler.http.work.crews import Crews
from go_scheduler.policies import CatchUp, RetryPolicy
from go_scheduler.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Mapping

    from go_scheduler.dispatch.bus import MessageBus
    from go_scheduler.handlers.job_types import JobTypes


class KeySection(Section):
    """An API key; see ``ApiKey``."""

    subject: str
    hash: SecretStr
    scopes: Texts
    queues: Texts | None = None
    owners: Texts | None = None
    expires_at: datetime | None = None

    def key(self) -> ApiKey:
        """The key.

        Raises:
            ConfigurationError: Something of it is wrong.
        """
        given = {name: getattr(self, name) for name in type(self).model_fields}
        return ApiKey(**given | {"hash": self.hash.get_secret_value()})


class OidcSection(Section):
    """Whose tokens are taken; see ``OidcIssuer``."""

    issuer: str
    audience: str
    algorithms: Texts = ("RS256", "PS256", "ES256", "EdDSA")
    types: Texts = ("at+jwt", "JWT")
    clients: Texts = ()
    leeway: Duration = timedelta(seconds=30)
    roles_claim: str | None = None
    roles: dict[str, Texts] | None = None
    queues_claim: str | None = None
    owners_claim: str | None = None
    keys_kept: Duration = timedelta(hours=1)
    client_id: str | None = None


class AccessSection(Section):
    """Who may call; with neither keys nor an issuer, this machine alone.

    Attributes:
        keys: API keys that are taken.
        oidc: Whose tokens are taken.
        origins: Sites whose pages may call from a browser.
    """

    keys: tuple[KeySection, ...] = ()
    oidc: OidcSection | None = None
    origins: Texts = ()

    @property
    def is_open(self) -> bool:
        """Whether nobody has to say who they are."""
        return not self.keys and self.oidc is None

    def access(self) -> Access:
        """What tells who calls.

        Raises:
            ConfigurationError: A key or the issuer is wrong.
        """
        if self.is_open:
            return OpenAccess(self.origins)
        issuer = None if self.oidc is None else OidcIssuer(**dict(self.oidc))
        keys = [each.key() for each in self.keys]
        return BearerAccess(keys=keys, issuer=issuer, origins=self.origins)


class DashboardSection(Section):
    """The dashboard that a server has; see ``create_dashboard`` and ``SignIn``.

    Attributes:
        enabled: Whether it has one.
        allow_changes: Whether its pages change anything, for those who may; None: where
            there is authentication.
        origin: Where browsers have it; None: the host that they ask for.
        client_id: As what the issuer knows it; None: as the command line.
        client_secret: By what the issuer knows that it is.
        scope: What the issuer is asked for.
        session: After so long people have to sign in again.
    """

    enabled: bool = True
    allow_changes: bool | None = None
    origin: str | None = None
    client_id: str | None = None
    client_secret: SecretStr | None = None
    scope: str = "openid"
    session: Duration = timedelta(hours=8)


_SECOND, _MINUTE = timedelta(seconds=1), timedelta(minutes=1)
_RATE = Rate(per_second=5_000, burst=10_000)


class RateSection(Section):
    """How often one caller may call.

    Attributes:
        per_second: So often in the long run.
        burst: So many at once.
    """

    per_second: float = _RATE.per_second
    burst: int = _RATE.burst


class LimitsSection(Section):
    """What a request may take; see ``Limits``."""

    headers: Annotated[int, Field(ge=1)] = 100
    header_bytes: Annotated[int, Field(ge=1024)] = 32 * 1024
    body_bytes: Annotated[int, Field(ge=1)] = 1024 * 1024
    threads: Annotated[int, Field(ge=1)] = 32
    calls: Annotated[int, Field(ge=1)] = 1000
    rate: RateSection | None = RateSection()


class ServerSection(Section):
    """How the server is reached.

    Attributes:
        host: The address that it listens on.
        port: The port; 0: any that is free.
        connections: How many there may be; more are told to come again later.
        drain: How long a stop waits for what runs.
        head_timeout: How long the head of a request may take to arrive, and a new
            connection to ask for something.
        read_timeout: How long the body of a request may take to arrive.
        write_timeout: How long a request may take to be answered after that, and how
            long nothing may be read of an answer.
        keep_alive: How long a connection is kept that nobody uses.
        root_path: The path under which a proxy has it.
        tls_certificate: A file with the certificate, and those above it.
        tls_key: A file with its key.
        tls_key_password: What that is encrypted with.
        limits: What a request may take.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8710
    connections: Annotated[int, Field(ge=1)] = 12_000
    drain: Duration = 30 * _SECOND
    head_timeout: Duration = 10 * _SECOND
    read_timeout: Duration = 20 * _SECOND
    write_timeout: Duration = 20 * _SECOND
    keep_alive: Duration = 75 * _SECOND
    root_path: str = ""
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_key_password: SecretStr | None = None
    limits: LimitsSection = LimitsSection()

    @model_validator(mode="after")
    def _check_tls(self) -> ServerSection:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key need each other")
        return self

    def request_limits(self) -> Limits:
        """The limits that a request keeps to.

        Raises:
            ConfigurationError: One is wrong.
        """
        given = self.limits.model_dump(exclude={"rate"})
        rate = self.limits.rate
        return Limits(
            **given,
            read=self.read_timeout,
            answer=self.write_timeout,
            rate=None if rate is None else Rate(**rate.model_dump()),
        )


class RetrySection(Section):
    """What follows a run that did not succeed; see ``RetryPolicy``."""

    max_attempts: int | None = 20
    delay: Duration | None = 15 * _SECOND
    factor: float = 2.0
    max_delay: Duration | None = 5 * _MINUTE
    jitter: float = 0.2
    stop_on: Texts = ()

    @model_validator(mode="before")
    @classmethod
    def _beside_a_delay(cls, given: object) -> object:
        """What is not said beside a delay is as in ``RetryPolicy``."""
        if not isinstance(given, dict) or "delay" not in given:
            return given
        return {"factor": 1.0, "max_delay": None, "jitter": 0.0} | given

    def policy(self) -> RetryPolicy | None:
        """The policy; None: nothing is said.

        Raises:
            ConfigurationError: It is wrong.
        """
        return RetryPolicy(**dict(self)) if self.model_fields_set else None


class CatchUpSection(Section):
    """What becomes of what is late; see ``CatchUp``."""

    mode: Literal["latest", "all", "none"] = "latest"
    grace: Duration = 10 * _SECOND
    within: Duration | None = None
    drop_after: Duration | None = None


class SchedulerSection(Section):
    """How the server schedules and runs; see ``Scheduler`` for what each means."""

    schedule_window: Duration = _SECOND
    runner_window: Duration = _SECOND
    cleanup_window: Duration = _MINUTE
    queues: Texts = ("default",)
    max_workers: int = 32
    max_held: int = 1000
    max_hung: int | None = None
    max_hangs: int | None = 3
    expire_after: Duration = 5 * _MINUTE
    timeout: Duration | None = None
    retry: RetrySection = RetrySection()
    catch_up: CatchUpSection = CatchUpSection()
    lease: Duration = 20 * _SECOND
    retention: Duration = timedelta(days=1)
    retention_failed: Duration | None = None
    remember: Duration = timedelta(days=400)
    clock_error: Duration | None = None
    lateness_objective: Duration | None = None
    log_runs: bool = False

    def arguments(self) -> dict[str, Any]:
        """What a ``Scheduler`` is given.

        Raises:
            ConfigurationError: A policy is wrong.
        """
        found = {name: getattr(self, name) for name in type(self).model_fields}
        return found | {
            "retry": self.retry.policy(),
            "catch_up": CatchUp(**dict(self.catch_up)),
        }


class WorkSection(Section):
    """How work is handed to workers elsewhere.

    Attributes:
        lease: For how long a worker has what it is handed, unless it asks for more.
        crews: How many sets of queues may be waited for at once: each is a node.
        crews_each: How many of one caller.
        idle: After so long without anybody waiting for a set its node is stopped.
        waiting: How many workers may wait.
        waiting_each: How many of one caller.
    """

    lease: Duration = 30 * _SECOND
    crews: Annotated[int, Field(ge=1)] = 32
    crews_each: Annotated[int, Field(ge=1)] = 16
    idle: Duration = _MINUTE
    waiting: Annotated[int, Field(ge=1)] = 10_000
    waiting_each: Annotated[int, Field(ge=1)] = 1000

    def hand_out(self, scheduler: Scheduler) -> Crews:
        """What hands out the work of a scheduler.

        Raises:
            ConfigurationError: A setting is wrong.
        """
        return Crews(
            scheduler,
            lease=self.lease,
            most=self.crews,
            each=self.crews_each,
            idle=self.idle,
            waiting=Waiting(each=self.waiting_each, all=self.waiting),
        )


class JobsSection(Section):
    """What holds for jobs that do not say it; see ``JobDefaults``."""

    jitter: Duration | None = None
    interval: Duration | None = None

    def defaults(self) -> JobDefaults:
        """What holds for them."""
        return JobDefaults(**dict(self))


class LogSection(Section):
    """What is logged, to standard error.

    Attributes:
        format: Lines of text, or of JSON.
        level: The least that is logged.
        requests: Whether there is a line for each request.
        log_polls: Whether that is so for those of workers who wait for work, too, and
            for questions how the server is.
    """

    format: Literal["text", "json"] = "text"
    level: Literal["debug", "info", "warning", "error"] = "info"
    requests: bool = True
    log_polls: bool = False


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
