"""What only some brokers can be told, by a URL's question mark or an argument."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from go_scheduler.errors import ConfigurationError
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from urllib.parse import SplitResult

_SCHEMES = {"queue_type": ("amqp", "amqps"), "tls_ca": ("amqps",)}
_IN_URLS = {"queue_type": "queue_type", "ca_certs": "tls_ca"}


def options_of(hosts: Iterable[SplitResult]) -> Mapping[str, str]:
    """The options in a URL, or in those of several hosts, of which the last counts.

    Raises:
        ConfigurationError: There is no such option, or not for this scheme, or it says
            nothing. What may be a part of a password is not repeated.
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
    """Refuse an argument that would promise what a broker does not keep.

    Raises:
        ConfigurationError: It means nothing with this scheme.
    """
    schemes = _SCHEMES[_IN_URLS[argument]]
    if scheme not in schemes:
        raise ConfigurationError(
            f"{argument} means nothing with {scheme}://, but with"
            f" {' and '.join(schemes)}: leave it out"
        )
