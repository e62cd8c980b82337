"""The error of a text that cannot be read, before it is known as a trigger's."""


class RefusedError(Exception):
    """What is wrong with a text, without the text."""
