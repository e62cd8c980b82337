"""Triggers made of other triggers, and how far they are searched."""

from go_scheduler.triggers.combining.any_all import AllOfTrigger, AnyOfTrigger
from go_scheduler.triggers.combining.excluding import ExceptTrigger, OnlyTrigger
from go_scheduler.triggers.combining.limited import LimitedTrigger

__all__ = [
    "AllOfTrigger",
    "AnyOfTrigger",
    "ExceptTrigger",
    "LimitedTrigger",
    "OnlyTrigger",
]
