"""The error of a text that cannot be read, before it is known as a trigger's."""


class RefusedError(Exception):
    """The mistake in a text, without the text."""
