"""What a user says about failures, lateness and overlap: decisions without I/O."""

from go_scheduler.policies.catch_up import CatchUp
from go_scheduler.policies.overlap import Overlap
from go_scheduler.policies.retry_policy import RetryPolicy

__all__ = ["CatchUp", "Overlap", "RetryPolicy"]
