"""The clock on the wall: zones, and what their changes make of local times."""
