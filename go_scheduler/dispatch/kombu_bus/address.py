"""Where a broker is, and how it is connected to; passwords are never shown."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from amqp.exceptions import AccessRefused, ConsumerCancelled, NotAllowed
from kombu import Connection

from go_scheduler.dispatch.kombu_bus.options import options_of
from go_scheduler.dispatch.kombu_bus.wire import Wire
from go_scheduler.errors import BusUnavailableError, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta
    from urllib.parse import SplitResult

# amqp:// would be librabbitmq, where that is installed, which is another library.
_TRANSPORTS = {"amqp": "pyamqp", "amqps": "amqps", "memory": "memory"}
_HIDDEN = "***"
_POLLING = 0.005


class Address:
    """A broker, by its URL.

    Args:
        url: With one or more hosts.
        ca_certs: The file of certificates that the broker's is checked by.
        heartbeat: How often the broker and we tell each other that we are there.
        timeout: How long to wait for any answer.
        options: Those of kombu's transport.

    Attributes:
        scheme: What the URL begins with.
        shown: The URL without a password.
        prefix: What the names of queues begin with.
        is_amqp: Whether the broker confirms, and is heard on a socket of ours.
        queue_type: That of the URL; None: it says none.
        ca_certs: Likewise, or what was given.

    Raises:
        ConfigurationError: It is no URL of a broker.
    """

    def __init__(
        self,
        url: str,
        *,
        ca_certs: str | None,
        heartbeat: timedelta,
        timeout: timedelta,
        options: Mapping[str, object],
    ) -> None:
        self._parts = [_split(each) for each in str(url).split(";")]
        first = self._parts[0]
        if len({each.scheme for each in self._parts}) > 1:
            raise ConfigurationError("the URLs of a bus's hosts have different schemes")
        self.scheme = first.scheme
        self.is_amqp = first.scheme in ("amqp", "amqps")
        self.shown = ";".join(map(_masked, self._parts))
        self._heartbeat = heartbeat.total_seconds() if self.is_amqp else 0
        self._timeout = timeout.total_seconds()
        said = options_of(self._parts)
        self.queue_type = said.get("queue_type")
        self.ca_certs = said.get("tls_ca", ca_certs)
        self._options = options
        self._next = 0
        # Brokers in memory are told apart by the host that their URLs name.
        in_memory = first.scheme == "memory" and first.netloc
        self.prefix = f"{first.netloc}." if in_memory else ""

    def connect(self) -> Wire:
        """A connection, made anew: to the next host, if the last one did not answer.

        Raises:
            Exception: Whatever the driver raises.
        """
        parts = self._parts[self._next % len(self._parts)]
        self._next += 1
        wire = Wire(
            Connection(
                hostname=parts.hostname,
                port=parts.port,
                userid=_decoded(parts.username),
                password=_decoded(parts.password),
                virtual_host=_decoded(parts.path[1:]),
                transport=_TRANSPORTS[parts.scheme],
                ssl=self._ssl(parts),
                heartbeat=self._heartbeat,
                connect_timeout=self._timeout,
                transport_options=self._transport_options(),
            )
        )
        # The one that has answered is asked first the next time.
        self._next -= 1
        return wire

    def unavailable(self, error: BaseException) -> BusUnavailableError:
        """That the broker cannot be used, and why, without a password."""
        text = reason(error)
        for each in self._parts:
            for secret in (each.password, unquote(each.password or "")):
                if secret:
                    text = text.replace(secret, _HIDDEN)
        raised = BusUnavailableError(f"the bus at {self.shown} cannot be used: {text}")
        raised.__cause__ = error
        return raised

    def refuses(self, error: Exception) -> bool:
        """Whether it is about who asks, and not about how the broker is."""
        return isinstance(error, AccessRefused | NotAllowed)

    def _ssl(self, parts: SplitResult) -> dict[str, object] | bool:
        """Certificates are checked, against the name of the host as well."""
        if parts.scheme != "amqps":
            return False
        return {
            "cert_reqs": ssl.CERT_REQUIRED,
            "server_hostname": parts.hostname,
            "ca_certs": self.ca_certs,
        }

    def _transport_options(self) -> dict[str, object]:
        """What keeps a broker that does not answer from holding us up."""
        ours = {"polling_interval": _POLLING}
        if self.is_amqp:
            ours = {"read_timeout": self._timeout, "write_timeout": self._timeout}
        return {**ours, **self._options}


def reason(error: BaseException) -> str:
    """What an error says; of one of AMQP's without the numbers of its method."""
    if isinstance(error, ConsumerCancelled):
        return "its queue was deleted, or has moved to another node"
    said = getattr(error, "reply_text", None) or str(error)
    return said or type(error).__name__


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        known = parts.scheme in _TRANSPORTS and not parts.fragment
        known = known and (parts.port is None or parts.port > 0)
    except ValueError:
        known = False
    if not known:
        schemes = ", ".join(_TRANSPORTS)
        raise ConfigurationError(
            "a bus's URL is scheme://user:password@host:port/vhost, with a port of 1 to"
            f" 65535 if any, and a scheme of {schemes}; what is special in a name or"
            " password is percent-encoded"
        )
    return parts


def _masked(parts: SplitResult) -> str:
    host = parts.netloc.rpartition("@")[2]
    user = parts.username
    if parts.password is not None:
        user = f"{user}:{_HIDDEN}"
    return f"{parts.scheme}://{f'{user}@' if user else ''}{host}{parts.path}"


def _decoded(text: str | None) -> str | None:
    return unquote(text) if text else None
