"""All settings of a server, in sections, and the objects that are made of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PrivateAttr,
    SecretStr,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from go_scheduler.dispatch.bus import open_bus
from go_scheduler.dispatch.dispatcher import Dispatcher
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import read_duration, shown, write_duration
from go_scheduler.handlers.email import Email, MailServer
from go_scheduler.handlers.job_types import JobTypes
from go_scheduler.handlers.schema import Schema
from go_scheduler.handlers.shell import Command, Shell
from go_scheduler.handlers.shell import Limits as CommandLimits
from go_scheduler.handlers.webhook import Webhook
from go_scheduler.handlers.webhook_settings import Secret, WebhookSettings
from go_scheduler.http.access.authentication import (
    Access,
    ApiKey,
    BearerAccess,
    OpenAccess,
)
from go_scheduler.http.access.issuer import OidcIssuer
from go_scheduler.http.access.loopback import checked_origins
from go_scheduler.http.configuration.files import read_text
from go_scheduler.http.configuration.imported import imported
from go_scheduler.http.limits import Limits, Rate, Waiting
from go_scheduler.http.staggering import JobDefaults
from go_scheduler.http.work.long_poll import LongPoll
from go_scheduler.policies import CatchUp, RetryPolicy
from go_scheduler.scheduler import Scheduler

if TYPE_CHECKING:
    from go_scheduler.handlers.registry import Handler
    from go_scheduler.http.configuration.loading import Sources


PREFIX = "GO_SCHEDULER_"
"""The names of the variables of settings begin with it."""


def _several(value: object) -> object:
    """A list, or a text with commas, as in the environment."""
    if isinstance(value, str):
        return [each.strip() for each in value.split(",") if each.strip()]
    return value


def _origin(value: str) -> str:
    """An origin as browsers send it."""
    checked_origins([value])
    return value


# The parts of a URL that hold no secret: host, port, path, and namespace.
_PLACE = (
    r"(\[[\da-fA-F:.]+\]|[^:?#;%\s/@]*)(:\d+)?(/[^?#;%\s@]*)?(\?namespace=[\w.%+:-]+)?"
)
_URL = re.compile(
    rf"(?P<user>[a-z][\w+-]*://[\w.-]*)(?P<password>:.*)?(?P<place>@{_PLACE})"
    rf"|[a-z][\w+-]*://{_PLACE}",
    re.ASCII,
)


def _masked(secret: SecretStr) -> str:
    """A mask; of a URL only the password is masked."""
    url = _URL.fullmatch(secret.get_secret_value())
    if url is None:
        return "***"
    return f"{url['user']}:***{url['place']}" if url["password"] else url[0]


def _from_files(given: object, names: Iterable[str]) -> object:
    """Read these secrets if they are in files, as ``url_file`` says of ``url``."""
    if not isinstance(given, Mapping):
        return given
    found = dict(given)
    for name in names:
        if (file := found.pop(f"{name}_file", None)) is None:
            continue
        if found.get(name) is not None:
            raise ValueError(f"say {name} or {name}_file, not both")
        found[name] = read_text(Path(str(file)), f"{name}_file: ").strip()
    return found


def _all_from_files(given: object) -> object:
    """Read the secrets of a mapping that are in files."""
    names = given if isinstance(given, Mapping) else ()
    return _from_files(given, [each.removesuffix("_file") for each in names])


Duration = Annotated[
    timedelta,
    BeforeValidator(lambda value: read_duration(value, "it")),
    PlainSerializer(write_duration),
]
"""Seconds, or a text such as ``5m``."""

Texts = Annotated[tuple[str, ...], BeforeValidator(_several)]
"""A list of texts, or one text with commas between them."""

Origin = Annotated[str, AfterValidator(_origin)]
"""The origin of a site, such as ``https://tasks.example.org``."""

SecretText = Annotated[SecretStr, PlainSerializer(_masked)]
"""A text that is masked when it is shown, and that may be in a file."""

SecretTexts = Annotated[dict[str, SecretText], BeforeValidator(_all_from_files)]
"""Secrets by the names that users give them."""


class Section(BaseModel):
    """A section: unknown settings are refused, and secrets may be in files.

    Attributes:
        makes: What is made of its settings; None: the section is used as it is.
    """

    makes: ClassVar[Callable[..., Any] | None] = None

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, validate_default=True
    )

    @model_validator(mode="before")
    @classmethod
    def _read_secrets(cls, given: object) -> object:
        if given is None:
            return {}
        secrets = (SecretStr, SecretText | None)
        fields = cls.model_fields.items()
        return _from_files(given, [n for n, f in fields if f.annotation in secrets])

    def as_arguments(self) -> dict[str, Any]:
        """The settings as arguments: secrets as texts, sections as what they make.

        Raises:
            ConfigurationError: A value is wrong.
        """
        return {name: _made(value) for name, value in self}

    def made(self) -> Any:
        """What the section makes.

        Raises:
            ConfigurationError: A value is wrong.
        """
        return self if self.makes is None else self.makes(**self.as_arguments())


def _made(value: object) -> object:
    """The argument for a setting."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Section):
        return value.made()
    if isinstance(value, dict):
        return {name: _made(each) for name, each in value.items()}
    return tuple(map(_made, value)) if isinstance(value, tuple) else value


class StoreSection(Section):
    """The store of definitions and instances.

    Attributes:
        url: The URL of the store; None: a SQLite file in the working folder.
    """

    url: SecretText | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_url(cls, given: object) -> object:
        """Accept a URL instead of the section."""
        return {"url": given} if isinstance(given, str) else given


class KeySection(Section):
    """An API key; see ``ApiKey``."""

    makes = ApiKey

    subject: str
    hash: SecretText
    scopes: Texts
    queues: Texts | None = None
    owners: Texts | None = None
    expires_at: datetime | None = None


class OidcSection(Section):
    """The issuer of tokens; see ``OidcIssuer``."""

    makes = OidcIssuer

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
    """Authentication; without keys and issuer only this machine may call.

    Attributes:
        keys: The API keys.
        oidc: The issuer of tokens.
        origins: Sites whose pages may call from a browser.
    """

    keys: tuple[KeySection, ...] = ()
    oidc: OidcSection | None = None
    origins: Annotated[tuple[Origin, ...], BeforeValidator(_several)] = ()

    @property
    def is_open(self) -> bool:
        """Whether there is no authentication."""
        return not self.keys and self.oidc is None

    def made(self) -> Access:
        """The authentication of callers.

        Raises:
            ConfigurationError: A key or the issuer is wrong.
        """
        if self.is_open:
            return OpenAccess(self.origins)
        given = self.as_arguments()
        return BearerAccess(issuer=given.pop("oidc"), **given)


class DashboardSection(Section):
    """The dashboard of a server; see ``create_dashboard`` and ``SignIn``.

    Attributes:
        enabled: Whether the server has a dashboard.
        allow_changes: Whether callers with the scopes may change anything there; None:
            only with authentication.
        origin: Its origin in browsers; None: the host of the request.
        client_id: Its client at the issuer; None: the client of the command line.
        client_secret: The secret of that client.
        scope: The scope to request.
        session: How long a session lasts.
    """

    enabled: bool = True
    allow_changes: bool | None = None
    origin: Origin | None = None
    client_id: str | None = None
    client_secret: SecretText | None = None
    scope: str = "openid"
    session: Duration = timedelta(hours=8)


_SECOND, _MINUTE = timedelta(seconds=1), timedelta(minutes=1)
_RATE = Rate(per_second=5_000, burst=10_000)


class RateSection(Section):
    """The rate limit of one caller.

    Attributes:
        per_second: The calls per second in the long run.
        burst: The most calls at once.
    """

    makes = Rate

    per_second: float = _RATE.per_second
    burst: int = _RATE.burst


class LimitsSection(Section):
    """The limits of a request; see ``Limits``."""

    headers: Annotated[int, Field(ge=1)] = 100
    header_bytes: Annotated[int, Field(ge=1024)] = 32 * 1024
    body_bytes: Annotated[int, Field(ge=1)] = 1024 * 1024
    threads: Annotated[int, Field(ge=1)] = 32
    calls: Annotated[int, Field(ge=1)] = 1000
    rate: RateSection | None = RateSection()


class ServerSection(Section):
    """The server: its address, TLS, and limits.

    Attributes:
        host: The address that it listens on.
        port: The port; 0: any free port.
        connections: The most connections; further ones are refused.
        drain: How long a stop waits for runs.
        head_timeout: How long the head of a request may take to arrive, also on a new
            connection.
        read_timeout: How long the body of a request may take to arrive.
        write_timeout: How long an answer may take after that, and how long a client
            may read nothing of it.
        keep_alive: How long an idle connection is kept.
        root_path: The path under which a proxy mounts it.
        tls_certificate: A file with the certificate chain.
        tls_key: A file with its key.
        tls_key_password: The password of the key.
        limits: The limits of a request.
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
    tls_key_password: SecretText | None = None
    limits: LimitsSection = LimitsSection()

    @model_validator(mode="after")
    def _check_tls(self) -> ServerSection:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key need each other")
        return self

    def request_limits(self) -> Limits:
        """The limits of a request.

        Raises:
            ConfigurationError: A limit is wrong.
        """
        given = self.limits.as_arguments()
        return Limits(**given, read=self.read_timeout, answer=self.write_timeout)


class RetrySection(Section):
    """The retry policy; see ``RetryPolicy``."""

    makes = RetryPolicy

    max_attempts: int | None = 20
    delay: Duration | None = 15 * _SECOND
    factor: float = 2.0
    max_delay: Duration | None = 5 * _MINUTE
    jitter: float = 0.2
    stop_on: Texts = ()

    @model_validator(mode="before")
    @classmethod
    def _beside_a_delay(cls, given: object) -> object:
        """Use the defaults of ``RetryPolicy`` for the settings beside a delay."""
        if not isinstance(given, dict) or "delay" not in given:
            return given
        return {"factor": 1.0, "max_delay": None, "jitter": 0.0} | given

    def made(self) -> RetryPolicy | None:
        """The policy; None: it has no setting."""
        return super().made() if self.model_fields_set else None


class CatchUpSection(Section):
    """The catch-up policy; see ``CatchUp``."""

    makes = CatchUp

    mode: Literal["latest", "all", "none"] = "latest"
    grace: Duration = 10 * _SECOND
    within: Duration | None = None
    drop_after: Duration | None = None


class SchedulerSection(Section):
    """The arguments of the scheduler; see ``Scheduler``."""

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
    jitter: Duration | None = None
    lease: Duration = 20 * _SECOND
    retention: Duration = timedelta(days=1)
    retention_failed: Duration | None = None
    remember: Duration = timedelta(days=400)
    clock_error: Duration | None = None
    lateness_objective: Duration | None = None
    log_runs: bool = False


class WorkSection(Section):
    """Work for workers over HTTP.

    Attributes:
        lease: The lease of a run, unless its worker extends it.
        crews: How many sets of queues may have waiting workers.
        crews_each: How many sets of one caller.
        idle: After this time without a waiting worker nothing is claimed for a set.
        waiting: How many workers may wait.
        waiting_each: How many workers of one caller may wait.
    """

    lease: Duration = 30 * _SECOND
    crews: Annotated[int, Field(ge=1)] = 32
    crews_each: Annotated[int, Field(ge=1)] = 16
    idle: Duration = _MINUTE
    waiting: Annotated[int, Field(ge=1)] = 10_000
    waiting_each: Annotated[int, Field(ge=1)] = 1000

    def hand_out(self, scheduler: Scheduler) -> LongPoll:
        """The long-poll of a scheduler's work.

        Raises:
            ConfigurationError: A setting is wrong.
        """
        return LongPoll(
            scheduler,
            lease=self.lease,
            most=self.crews,
            each=self.crews_each,
            idle=self.idle,
            waiting=Waiting(each=self.waiting_each, all=self.waiting),
        )


class JobsSection(Section):
    """The defaults of jobs; see ``JobDefaults``."""

    makes = JobDefaults

    jitter: Duration | None = None
    interval: Duration | None = None


class SecretSection(Section):
    """A secret, and the hosts that may receive it; see ``Secret``."""

    makes = Secret

    value: SecretText
    hosts: Texts


class WebhookSection(Section):
    """The type ``webhook``; see ``WebhookSettings``.

    Attributes:
        secrets: The keys of signatures, by name.
        authorizations: Values of ``Authorization``, by name.
    """

    hosts: Texts | None = None
    ports: tuple[int, ...] = (80, 443)
    networks: Texts = ()
    redirects: int = 0
    other_hosts: bool = False
    connect_timeout: Duration = timedelta(seconds=10)
    read_timeout: Duration = timedelta(seconds=30)
    timeout: Duration = timedelta(seconds=60)
    max_answer: int = 64 * 1024
    max_retry_after: Duration = timedelta(hours=1)
    ca_file: Path | None = None
    secrets: dict[str, SecretSection] = Field(default_factory=dict)
    authorizations: dict[str, SecretSection] = Field(default_factory=dict)

    def made(self) -> Webhook:
        """The handler of the type.

        Raises:
            ConfigurationError: A setting is wrong.
        """
        given = self.as_arguments()
        known = {name: given.pop(name) for name in ("secrets", "authorizations")}
        return Webhook(**known, settings=WebhookSettings(**given))


class EmailSection(Section):
    """The type ``email``; see ``MailServer`` and ``Email``."""

    host: str
    port: int = 587
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: str | None = None
    password: SecretText | None = None
    timeout: Duration = timedelta(seconds=30)
    ca_file: Path | None = None
    hello: str | None = None
    sender: str
    recipients: Texts | None = None
    max_recipients: int = 50

    def made(self) -> Email:
        """The handler of the type.

        Raises:
            ConfigurationError: A setting is wrong.
        """
        given = self.as_arguments()
        mail = {
            name: given.pop(name) for name in ("sender", "recipients", "max_recipients")
        }
        return Email(MailServer(**given), **mail)


class CommandLimitsSection(Section):
    """The limits of a command's process; see ``shell.Limits``."""

    makes = CommandLimits

    cpu_seconds: int | None = None
    memory: int | None = None
    open_files: int | None = None


class CommandSection(Section):
    """A command that may be run; see ``Command``.

    Attributes:
        environment: Its whole environment; None: a ``PATH`` and a ``LANG``.
    """

    arguments: tuple[str, ...]
    options: Texts = ()
    environment: SecretTexts | None = None
    folder: Path = Path("/")
    timeout: Duration = timedelta(minutes=5)
    final_codes: tuple[int, ...] = ()
    limits: CommandLimitsSection = CommandLimitsSection()

    def made(self) -> Command:
        """The command.

        Raises:
            ConfigurationError: There is no such program or folder, or a value is wrong.
        """
        given = self.as_arguments()
        if self.environment is None:
            del given["environment"]
        return Command(**given)


class ShellSection(Section):
    """The type ``shell``: commands, by their names.

    Attributes:
        commands: The commands that may be run.
        grace: The time between SIGTERM and SIGKILL for a command.
    """

    makes = Shell

    commands: dict[str, CommandSection]
    grace: Duration = timedelta(seconds=2)


class TypesSection(Section):
    """The types of jobs that the server itself runs.

    Attributes:
        queue: The queue of the types in this section.
        module: A ``JobTypes`` of your own, such as ``myapp.jobs:types``.
        announced: Whether to add the types that installed packages announce.
        webhook: Requests to URLs; None: there is no type ``webhook``.
        email: Mails; None: there is no type ``email``.
        shell: Commands; None: there is no type ``shell``.
    """

    queue: str = "server"
    module: str | None = None
    announced: bool = True
    webhook: WebhookSection | None = None
    email: EmailSection | None = None
    shell: ShellSection | None = None

    def job_types(self) -> JobTypes:
        """A new registry of the types, which may be empty.

        Raises:
            ConfigurationError: A type is wrong.
        """
        types = JobTypes()
        if self.module is not None:
            own = imported(self.module)
            if not isinstance(own, JobTypes):
                raise ConfigurationError(
                    f"module, {self.module}, must be a JobTypes, not {shown(own)}"
                )
            types = copy(own)
        if self.announced:
            types.load_announced()
        for name in ("webhook", "email", "shell"):
            if (section := getattr(self, name)) is not None:
                types.add(name, section.made(), queue=self.queue)
        return types

    def queues(self, types: JobTypes) -> tuple[str, ...]:
        """The queues of the types that the server runs."""
        return tuple(dict.fromkeys(each.definition.queue for each in types.types))


class LogSection(Section):
    """The log, on standard error.

    Attributes:
        format: Lines of text, or of JSON.
        level: The lowest level that is logged.
        requests: Whether each request is logged.
        log_polls: Whether polls of workers and health checks are logged as well.
    """

    format: Literal["text", "json"] = "text"
    level: Literal["debug", "info", "warning", "error"] = "info"
    requests: bool = True
    log_polls: bool = False


class DispatchTypeSection(Section):
    """A type of jobs that workers on the bus run.

    Attributes:
        description: What it does, for people to read.
        payload: The JSON schema of its payload.
        queue: Its queue; None: the queue of the server's types.
        timeout: The time limit of a run; None: the scheduler's default.
        expire_after: When a run is presumed hung; None: the scheduler's default.
        start_timeout: How long a run may wait to be accepted, and then to begin; None:
            the value of ``dispatch``.
        heartbeat_timeout: How long its worker may be silent; None: the value of
            ``dispatch``.
        retry: The retry policy; None: the scheduler's default.
    """

    description: str = "Run by a worker on the message bus."
    payload: dict[str, Any] = Field(default_factory=dict)
    queue: str | None = None
    timeout: Duration | None = None
    expire_after: Duration | None = None
    start_timeout: Duration | None = None
    heartbeat_timeout: Duration | None = None
    retry: RetrySection | None = None

    def job_type(
        self, types: JobTypes, name: str, *, queue: str
    ) -> Callable[[Handler], object]:
        """Decorate the handler of the type.

        Args:
            types: Receives the type.
            name: Its name.
            queue: Its queue, if the section has none.

        Raises:
            ConfigurationError: A setting is wrong, or the name is taken.
        """
        fields = self.as_arguments() | {"queue": self.queue or queue}
        schema = fields.pop("payload")
        Schema(schema, name="payload")  # named as it is here
        return types.job_type(name, schema=schema, **fields)


class DispatchSection(Section):
    """A message bus, and the types that run over it; see ``Dispatcher``.

    Attributes:
        url: The URL of the bus; None: there is no bus.
        namespace: The prefix of all its topics.
        topic_per_task: Whether each type has a topic of its own, within its queue.
        start_timeout: How long a run may wait to be accepted, and then to begin.
        heartbeat_timeout: How long the worker of a run may be silent; None: as long as
            its ``expire_after``.
        types: The types of jobs that run over the bus, by their names.
    """

    url: SecretText | None = None
    namespace: str = "go_scheduler"
    topic_per_task: bool = False
    start_timeout: Duration = timedelta(minutes=1)
    heartbeat_timeout: Duration | None = None
    types: dict[str, DispatchTypeSection] = Field(default_factory=dict)

    @contextmanager
    def opened(self, types: JobTypes, *, queue: str) -> Iterator[Dispatcher | None]:
        """Open the bus within the context; gives the handler that publishes runs.

        Args:
            types: Receives the types.
            queue: The queue of types without one.

        Raises:
            ConfigurationError: A setting is wrong, a name is taken, or there are types
                without a bus.
        """
        if self.url is None:
            if self.types:
                raise ConfigurationError(
                    "types are run over a bus, and dispatch.url names none"
                )
            yield None
            return
        with open_bus(self.url.get_secret_value()) as bus:
            dispatcher = Dispatcher(
                bus,
                namespace=self.namespace,
                topic_per_task=self.topic_per_task,
                start_timeout=self.start_timeout,
                heartbeat_timeout=self.heartbeat_timeout,
            )
            for name, each in self.types.items():
                each.job_type(types, name, queue=queue)(dispatcher)
            yield dispatcher


class Configuration(BaseSettings, Section):
    """All settings of a server, by section.

    Attributes:
        store: The store of definitions and instances.
        server: Address, TLS and limits.
        scheduler: The arguments of the scheduler.
        jobs: The defaults of jobs.
        work: Work for workers over HTTP.
        access: Authentication.
        dashboard: The dashboard.
        types: The types of jobs that the server runs itself.
        dispatch: A message bus, and the types that run over it.
        log: The log.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__")

    store: StoreSection = StoreSection()
    server: ServerSection = ServerSection()
    scheduler: SchedulerSection = SchedulerSection()
    jobs: JobsSection = JobsSection()
    work: WorkSection = WorkSection()
    access: AccessSection = AccessSection()
    dashboard: DashboardSection = DashboardSection()
    types: TypesSection = TypesSection()
    dispatch: DispatchSection = DispatchSection()
    log: LogSection = LogSection()

    _sources: Sources = PrivateAttr()

    @property
    def sources(self) -> Sources:
        """Where each setting was set."""
        return self._sources
