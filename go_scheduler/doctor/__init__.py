"""Finds what is wrong with a store or a schedule, and what to do; it only reads."""

from go_scheduler.doctor.diagnosis import Report, diagnose
from go_scheduler.stores.findings import Finding, Severity

__all__ = ["Finding", "Report", "Severity", "diagnose"]
