"""The revisions, one change of the schema each.

What has been released is never edited: databases exist that it made. So nothing here is
taken from the rest of the package. A change is one DDL statement that does no harm when
repeated, in a revision of its own, and changes no rows.
"""
