"""The two ways in which the training API refuses or fails a call."""

from __future__ import annotations


class ApiError(Exception):
    """An error of the API: its code and its text."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class ResponseError(Exception):
    """The sandbox was about to answer what AWS's model does not allow."""
