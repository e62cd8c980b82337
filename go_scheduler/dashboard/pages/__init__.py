"""Pages: what each reads, its routes, and its template of the same name."""

from go_scheduler.dashboard.pages import (
    definition,
    definition_changes,
    definitions,
    instance,
    instance_changes,
    instances,
    lateness,
    live,
    nodes,
    overview,
    search,
    strip,
)

PAGES = (
    overview,
    strip,
    definitions,
    definition,
    definition_changes,
    instances,
    instance,
    instance_changes,
    lateness,
    search,
    nodes,
    live,
)
"""All there are."""
