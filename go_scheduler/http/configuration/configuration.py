"""All settings of a server, by section."""

from __future__ import annotations

from pydantic_settings import BaseSettings, SettingsConfigDict

from go_scheduler.http.configuration.access_sections import AccessSection
from go_scheduler.http.configuration.dashboard_section import DashboardSection
from go_scheduler.http.configuration.dispatch_section import DispatchSection
from go_scheduler.http.configuration.section import Section
from go_scheduler.http.configuration.sections import (
    JobsSection,
    LogSection,
    SchedulerSection,
    ServerSection,
    WorkSection,
)
from go_scheduler.http.configuration.store_section import StoreSection
from go_scheduler.http.configuration.types_sections import TypesSection


class Configuration(BaseSettings, Section):
    """All settings of a server, by section.

    Attributes:
        store: Where definitions and instances are kept.
        server: How the server is reached.
        scheduler: How it schedules and runs.
        jobs: What holds for jobs that do not say it.
        work: How work is handed to workers elsewhere.
        access: Who may call.
        dashboard: The pages that it has.
        types: The types of jobs that it runs itself.
        dispatch: A message bus, and the types that are run over it.
        log: What is logged.
    """

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        env_prefix="GO_SCHEDULER_",
        env_nested_delimiter="__",
    )

    store: StoreSection = StoreSection()
    server: ServerSection = ServerSection()
    scheduler: SchedulerSection = SchedulerSection()
    jobs: JobsSection = JobsSection()
    work: WorkSection = WorkSection()
    access: AccessSection = AccessSection()
    dashboard: DashboardSection = DashboardSection()
    types: TypesSection = TypesSection()
    dispatch: DispatchSection = DispatchSection()
    log: LogSection = LogSection()
