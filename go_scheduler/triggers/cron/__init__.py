"""Cron expressions: read, described, and searched for what comes next."""

from go_scheduler.triggers.cron.cron_trigger import CronTrigger

__all__ = ["CronTrigger"]
