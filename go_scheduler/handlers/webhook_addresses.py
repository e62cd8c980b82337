"""Which addresses may be connected to: public ones, and what is allowed besides."""

from __future__ import annotations

from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TYPE_CHECKING, TypeAlias

from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

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
