"""The address of a broker, and connections to it; passwords are never shown."""

from __future__ import annotations

import contextlib
import ssl
from queue import Empty
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from amqp.exceptions import ConsumerCancelled
from kombu import Connection

from go_scheduler.errors import BusUnavailableError, ConfigurationError
from go_scheduler.formatting import shown

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable, Mapping
    from datetime import timedelta
    from urllib.parse import SplitResult

_SCHEMES = {"queue_type": ("amqp", "amqps"), "tls_ca": ("amqps",)}
_IN_URLS = {"queue_type": "queue_type", "ca_certs": "tls_ca"}


def options_of(hosts: Iterable[SplitResult]) -> Mapping[str, str]:
    """The options in the URLs of several hosts; of equal names the last counts.

    Raises:
        ConfigurationError: An option does not exist, is not for this scheme, or has no
            value. Text that may be part of a password is not repeated.
    """
    found: dict[str, str] = {}
    for parts in hosts:
        for name, value in parse_qsl(parts.query, keep_blank_values=True):
            if parts.scheme not in _SCHEMES.get(name, ()) or not value:
                known = "; ".join(
                    f"{each}=… for {' and '.join(schemes)}"
                    for each, schemes in _SCHEMES.items()
                )
                what = "such option" if "@" in parts.query else f"option {shown(name)}"
                raise ConfigurationError(
                    f"the URL of a bus has no {what} with {parts.scheme}://; known:"
                    f" {known}"
                )
            found[name] = value
    return found


def check_meant(scheme: str, argument: str) -> None:
    """Check that an argument has an effect with a scheme.

    Raises:
        ConfigurationError: It has none.
    """
    schemes = _SCHEMES[_IN_URLS[argument]]
    if scheme not in schemes:
        raise ConfigurationError(
            f"{argument} means nothing with {scheme}://, but with"
            f" {' and '.join(schemes)}: leave it out"
        )


class Wire:
    """An open connection; kombu never reconnects by itself.

    Args:
        client: The connection parameters.

    Raises:
        Exception: The driver raises it if the connection cannot be opened.
    """

    def __init__(self, client: Connection) -> None:
        # Kept, as kombu closes the connection when the client is collected.
        self._client = client
        self._transport = client.transport
        self._channels: list[Any] = []
        self.connection: Any = self._transport.establish_connection()

    @property
    def socket(self) -> socket.socket:
        """The socket of a connection to an AMQP broker."""
        sock: socket.socket = self.connection.sock
        return sock

    def channel(self) -> Any:
        """A new channel."""
        channel = self._transport.create_channel(self.connection)
        self._channels.append(channel)
        return channel

    def drain(self, seconds: float) -> bool:
        """Handle the next event; returns whether one came in time."""
        try:
            self._transport.drain_events(self.connection, timeout=seconds)
        except (TimeoutError, Empty):
            return False
        return True

    def beat(self) -> None:
        """Send a heartbeat to the broker, if one is due.

        Raises:
            Exception: The broker has sent nothing for too long.
        """
        self._transport.heartbeat_check(self.connection)

    def close(self, *, answered: bool = True) -> None:
        """Close it; with ``answered``, wait for the broker's answer."""
        with contextlib.suppress(Exception):
            if answered:
                self._transport.close_connection(self.connection)
        # The sockets are closed in any case.
        if hasattr(self._transport, "_collect"):
            with contextlib.suppress(Exception):
                self._transport._collect(self.connection)
            return
        for each in self._channels:
            # At the end of the process it would requeue messages that others have had.
            each.do_restore = False
            # The first call waits for an answer, the second does not.
            for _ in range(2):
                with contextlib.suppress(Exception):
                    each.close()


# kombu takes amqp:// for librabbitmq, another library, where that is installed.
_TRANSPORTS = {"amqp": "pyamqp", "amqps": "amqps", "memory": "memory"}
_HIDDEN = "***"
_POLLING = 0.005


class Address:
    """The address of a broker.

    Args:
        url: The URL; of several hosts, with ``;`` between them.
        ca_certs: The file of CA certificates that the broker's is checked against.
        heartbeat: The interval of heartbeats in both directions.
        timeout: How long to wait for any answer.
        options: More options of kombu's transport.

    Attributes:
        scheme: The scheme of the URL.
        shown: The URL without a password.
        prefix: The beginning of the names of queues.
        is_amqp: Whether the broker speaks AMQP: it confirms, and has a socket.
        queue_type: The option in the URL; None: there is none.
        ca_certs: The option in the URL, or else the argument.

    Raises:
        ConfigurationError: It is not the URL of a broker.
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
        # The host in the URL tells buses in memory apart.
        in_memory = first.scheme == "memory" and first.netloc
        self.prefix = f"{first.netloc}." if in_memory else ""

    def connect(self) -> Wire:
        """Open a connection; to the next host, if the last one did not answer.

        Raises:
            Exception: Any error of the driver.
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
        # This host has answered: the next connection tries it first.
        self._next -= 1
        return wire

    def unavailable(self, error: BaseException) -> BusUnavailableError:
        """The error that the broker cannot be used, with the reason, no password."""
        text = reason(error)
        for each in self._parts:
            for secret in (each.password, unquote(each.password or "")):
                if secret:
                    text = text.replace(secret, _HIDDEN)
        raised = BusUnavailableError(f"the bus at {self.shown} cannot be used: {text}")
        raised.__cause__ = error
        return raised

    def _ssl(self, parts: SplitResult) -> dict[str, object] | bool:
        """The TLS options: the certificate and the host's name are checked."""
        if parts.scheme != "amqps":
            return False
        return {
            "cert_reqs": ssl.CERT_REQUIRED,
            "server_hostname": parts.hostname,
            "ca_certs": self.ca_certs,
        }

    def _transport_options(self) -> dict[str, object]:
        """The options of the transport, with timeouts for a broker that hangs."""
        ours = {"polling_interval": _POLLING}
        if self.is_amqp:
            ours = {"read_timeout": self._timeout, "write_timeout": self._timeout}
        return {**ours, **self._options}


def reason(error: BaseException) -> str:
    """The text of an error; for an AMQP error, without the numbers of its method."""
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
