"""Pages: each reads its data, has its routes, and a template of the same name."""

from go_scheduler.dashboard.pages import (
    definitions,
    instances,
    overview,
    search,
    strip,
)

PAGES = (overview, strip, definitions, instances, search)
"""All pages."""
