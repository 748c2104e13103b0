"""The one error class a person is meant to read: its message is a full sentence, so callers may print it as it is."""


class SfiError(ValueError):
    """Bad input or an impossible request; the message names what was wrong and what is allowed."""
