"""The revisions of the schema, each named for the day on which it was written.

What has been released is never edited: databases exist that it made. So nothing here is
taken from the rest of the package. Until the first release the first revision is edited
in place, under a new day, by which a database that an earlier text made is known.

Each statement does no harm when repeated, for a migration that was interrupted begins
its revision anew, and none changes rows.
"""
