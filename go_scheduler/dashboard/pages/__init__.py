"""Pages: each reads its data, has its routes, and a template of the same name."""

from go_scheduler.dashboard.pages import definitions, instances, overview

PAGES = (overview, definitions, instances)
"""All pages."""
