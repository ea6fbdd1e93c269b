"""A small JSON service whose requests and responses are checked against botocore's model of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import botocore.session
from botocore.model import Shape
from botocore.validate import ParamValidator

from sandbox.cloud.context import Caller, JsonHandler, JsonObject

logger = logging.getLogger("sandbox.cloud")

Operation = Callable[[JsonObject], JsonObject]


class ApiError(Exception):
    """An error of the API: its code and its text."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def model_checked(service: str, operations: Mapping[str, Operation], *, invalid_code: str) -> JsonHandler:
    """A handler for `register_json_service`.

    `service` is botocore's name of it; `invalid_code` the error code for an unknown, missing or wrongly typed
    parameter. A response that the model does not allow is a mistake of the sandbox: 500, and the log says what.
    """
    model = botocore.session.get_session().get_service_model(service)

    def handle(operation: str, params: JsonObject, _caller: Caller) -> tuple[int, JsonObject]:
        if operation not in operations:
            message = f"Not emulated by the sandbox: {service} {operation}"
            return 400, {"__type": "UnknownOperationException", "message": message}
        shapes = model.operation_model(operation)
        invalid = _invalid(params, shapes.input_shape)
        if invalid:
            return 400, {"__type": invalid_code, "message": invalid}
        try:
            body = operations[operation](params)
        except ApiError as error:
            return 400, {"__type": error.code, "message": str(error)}
        invalid = _invalid(body, shapes.output_shape)
        if invalid:
            logger.error("%s %s: %s", service, operation, invalid)
            return 500, {"__type": "InternalFailure", "message": f"the sandbox failed in {operation}; see its log"}
        return 200, body

    return handle


def _invalid(value: JsonObject, shape: Shape | None) -> str | None:
    """What is wrong with a request or a response, or None."""
    if shape is None:
        return None
    found = ParamValidator().validate(value, shape)
    return found.generate_report() if found.has_errors() else None


def page(items: list[JsonObject], params: JsonObject, *, largest: int) -> tuple[list[JsonObject], str | None]:
    """One page of `items` by MaxResults and NextToken, and the token of the next."""
    token = params.get("NextToken", "0")
    if not str(token).isdigit():
        raise ApiError("InvalidPaginationTokenException", f"Invalid token: {token}")
    start = int(token)
    end = start + min(int(params.get("MaxResults", largest)), largest)
    return items[start:end], (str(end) if end < len(items) else None)
