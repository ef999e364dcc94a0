"""How a client tells that it cannot do its work."""


class Failure(Exception):
    """Why the work was not done, in a status and in words; it becomes the record's end."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


class UsageError(Exception):
    """Something in the call cannot be used; nothing is recorded."""
