"""Why the sampler cannot begin or go on."""


class Refusal(Exception):
    """Carries the exit code."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code
