"""The client: what users do to definitions and instances, without running any."""

from go_scheduler.client.client import Client

__all__ = ["Client"]
