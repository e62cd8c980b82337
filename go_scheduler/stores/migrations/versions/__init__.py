"""The revisions of the schema, each named for the day on which it was written.

None is ever edited: databases exist that it made. So nothing here is taken from the
rest of the package, but for the steps beside this folder. A database that was made
before the first of them is known by its earlier day.

Each statement does no harm when repeated, for a migration that was interrupted begins
its revision anew, and none changes rows. CONTRIBUTING.md says how to add one.
"""
