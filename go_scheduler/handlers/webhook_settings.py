"""What webhooks may do: which addresses they reach, with which secrets, how long."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from pathlib import Path
from typing import TypeAlias

from go_scheduler.checks import check_at_least, check_number, check_positive
from go_scheduler.clock import ZERO
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown

Network: TypeAlias = IPv4Network | IPv6Network
Address: TypeAlias = IPv4Address | IPv6Address

UNKNOWN = "unknown"
"""The kind of a text that is no address."""

_KINDS = (
    "is_unspecified",
    "is_loopback",
    "is_link_local",
    "is_multicast",
    "is_private",
    "is_reserved",
)
# Public addresses by number, but served by the cloud provider of the machine.
_METADATA = (ip_address("168.63.129.16"), ip_address("192.0.0.192"))
_SITE_LOCAL = IPv6Network("fec0::/10")
_NAT64 = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
# The address holds the one it leads to; older versions of Python call it public.
_TUNNELS = (IPv6Network("2001::/32"), IPv6Network("2002::/16"))


def networks_of(texts: Collection[str]) -> Sequence[Network]:
    """Read networks from texts such as ``"10.1.0.0/16"``.

    Raises:
        ConfigurationError: A text is no network.
    """
    if isinstance(texts, str):
        raise ConfigurationError(f"networks must be a list, not {shown(texts)}")
    try:
        return [ip_network(each) for each in texts]
    except ValueError as error:
        raise ConfigurationError(f"networks: {error}") from None


def refusal_of(text: str, allowed: Collection[Network]) -> str | None:
    """The kind of an address that must not be connected to; None: it may be.

    An address within another, such as the IPv4 address to which NAT64 leads, has to be
    allowed as well.

    Args:
        text: The address, as it was resolved.
        allowed: The networks that may be connected to besides public addresses.
    """
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return UNKNOWN
    for each in (address, *_within(address)):
        if not any(each in network for network in allowed):
            kind = _kind_of(each)
            if kind is not None:
                return kind
    return None


def _kind_of(address: Address) -> str | None:
    """The kind of an address that is not public; None: it is public."""
    if address in _METADATA:
        return "metadata"
    if address in _SITE_LOCAL:
        return "site_local"
    if any(address in each for each in _TUNNELS):
        return "tunnel"
    for kind in _KINDS:
        if getattr(address, kind):
            return kind.removeprefix("is_")
    return None if address.is_global else "shared"


def _within(address: Address) -> Sequence[IPv4Address]:
    """The IPv4 addresses that an IPv6 address leads to."""
    if isinstance(address, IPv4Address):
        return ()
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if any(address in each for each in _NAT64):
        found.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return [each for each in found if each is not None]


_MOST_REDIRECTS = 10
_LEAST_ANSWER = 1024
_MOST_ANSWER = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """What a payload names and never holds: a key, or the value of a header.

    Attributes:
        value: The secret itself; it is not shown.
        hosts: The only hosts it is sent to, as the payload chooses the URL.

    Raises:
        ConfigurationError: It is empty or not one line of text, or no host is named.
    """

    value: str = field(repr=False)
    hosts: Collection[str]

    def __post_init__(self) -> None:
        is_text = isinstance(self.value, str) and self.value != ""
        if not (is_text and self.value.isascii() and self.value.isprintable()):
            raise ConfigurationError(
                "a secret must be a text of printable ASCII characters, and not empty"
            )
        if not (hosts := checked_hosts(self.hosts)):
            raise ConfigurationError("hosts must name the hosts that a secret goes to")
        object.__setattr__(self, "hosts", hosts)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """What webhooks may do.

    Attributes:
        hosts: The only ones they may go to; a name that begins with a dot stands for
            all below it. None: any with a public address.
        ports: The only ports.
        networks: Addresses that are allowed though they are not public, such as
            ``"10.1.0.0/16"``.
        redirects: How many are followed, at most 10, each checked as the URL is.
        other_hosts: Whether redirects to other hosts are followed, without secrets and
            without the headers of the payload.
        connect_timeout: How long a connection may take.
        read_timeout: How long the receiver may be silent.
        timeout: How long the whole request may take; a payload may ask for less.
        max_answer: How many bytes of an answer are read.
        max_retry_after: The longest wait that an answer may ask for.
        ca_file: The certificates, as PEM, to verify receivers by; None: those of httpx.

    Raises:
        ConfigurationError: A value is wrong.
    """

    hosts: Collection[str] | None = None
    ports: Collection[int] = (80, 443)
    networks: Collection[str] = ()
    redirects: int = 0
    other_hosts: bool = False
    connect_timeout: timedelta = timedelta(seconds=10)
    read_timeout: timedelta = timedelta(seconds=30)
    timeout: timedelta = timedelta(seconds=60)
    max_answer: int = 64 * 1024
    max_retry_after: timedelta = timedelta(hours=1)
    ca_file: Path | str | None = None

    def __post_init__(self) -> None:
        if self.hosts is not None:
            object.__setattr__(self, "hosts", checked_hosts(self.hosts))
        networks_of(self.networks)
        for name in ("connect_timeout", "read_timeout", "timeout"):
            check_positive(name, getattr(self, name))
        check_at_least("max_retry_after", self.max_retry_after, ZERO)
        check_number("redirects", self.redirects, 0, _MOST_REDIRECTS)
        check_number("max_answer", self.max_answer, _LEAST_ANSWER, _MOST_ANSWER)
        for port in self.ports:
            check_number("a port", port, 1, 65535)
        if self.ca_file is not None and not Path(self.ca_file).is_file():
            raise ConfigurationError(f"ca_file: there is no file {self.ca_file}")


def checked_hosts(hosts: object) -> tuple[str, ...]:
    """Check names of hosts, and write them as they are compared.

    Raises:
        ConfigurationError: They are no list of names.
    """
    if isinstance(hosts, str) or not isinstance(hosts, Collection):
        raise ConfigurationError(f"hosts must be a list of names, not {shown(hosts)}")
    if wrong := [each for each in hosts if not isinstance(each, str) or "/" in each]:
        raise ConfigurationError(
            f"a host is a name, as in example.org, without scheme or path:"
            f" {shown(wrong[0])}"
        )
    return tuple(host_name(each) for each in hosts)


def host_name(host: str) -> str:
    """A host as it is compared."""
    return host.lower().rstrip(".")


def is_among(host: str, hosts: Collection[str]) -> bool:
    """Whether a host is among these, or below one that begins with a dot."""
    name = host_name(host)
    return any(
        name == each or (each.startswith(".") and name.endswith(each)) for each in hosts
    )
