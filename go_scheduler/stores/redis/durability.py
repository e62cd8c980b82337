"""What a server loses when it dies, by its settings: said once, when a store begins."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from go_scheduler.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from go_scheduler.stores.redis.server import Server

log = logging.getLogger(__name__)

SETTINGS = ("appendonly", "appendfsync", "maxmemory", "maxmemory-policy")
_LEAST_VERSION = (6, 2)


def check_version(server: Server) -> None:
    """Refuse a server whose scripts cannot do what ours do; not one that does not tell.

    Raises:
        ConfigurationError: It is older than Redis 6.2.
    """
    version = server.version()
    if version is not None and version < _LEAST_VERSION:
        shown = ".".join(map(str, version))
        raise ConfigurationError(
            f"the server is Redis {shown}: a store needs Redis 6.2 or later, or Valkey"
        )


def warn(server: Server) -> None:
    """Say what would be lost, and what to set; nothing if the server does not tell."""
    settings = server.settings(SETTINGS)
    for risk in _risks(settings):
        log.warning("%s", risk)
    if (
        settings.get("appendonly") == "yes"
        and settings.get("appendfsync") == "everysec"
    ):
        log.info(
            "Redis has appendfsync everysec: if its machine dies, what was written in"
            " the last second is lost; set appendfsync always to lose nothing"
        )


def _risks(settings: Mapping[str, str]) -> Iterator[str]:
    if settings.get("appendonly") == "no":
        yield (
            "Redis has appendonly no: when it ends, what was written since its last"
            " snapshot is lost; set appendonly yes, and appendfsync always to lose"
            " nothing"
        )
    elif settings.get("appendfsync") == "no":
        yield (
            "Redis has appendfsync no: if its machine dies, what was written in the"
            " last half minute may be lost; set appendfsync always to lose nothing, or"
            " everysec to lose a second"
        )
    policy = settings.get("maxmemory-policy", "")
    if settings.get("maxmemory", "0") != "0" and policy.startswith("allkeys"):
        yield (
            f"Redis has maxmemory-policy {policy}: when its memory is full it removes"
            " definitions and instances; set maxmemory-policy noeviction"
        )
