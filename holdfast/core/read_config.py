"""An account's config and a job template's description, read from YAML with every error at once, in words."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel

from holdfast.core.config import AccountConfig
from holdfast.core.deployment import JobTemplate
from holdfast.core.field_errors import FieldError, from_problem, read_model
from holdfast.core.plain_document import DocumentError, parse_document

M = TypeVar("M", bound=BaseModel)


class ConfigError(ValueError):
    """A config or a job.yaml that a person has to correct; the text lists every error, one a line."""

    def __init__(self, what: str, errors: tuple[FieldError, ...]) -> None:
        super().__init__("\n".join([f"{what} has {_count(len(errors))}:", *(f"  {error}" for error in errors)]))
        self.errors = errors


def read_config(text: str | bytes, what: str = "the account's config") -> AccountConfig:
    """The config in `text` (YAML). `what` names the file in the error. Raises ConfigError."""
    return _read(AccountConfig, text, what)


def read_template(text: str | bytes, folder: str) -> JobTemplate:
    """The description in `job_templates/<folder>/job.yaml`. Raises ConfigError."""
    what = f"job_templates/{folder}/job.yaml"
    template = _read(JobTemplate, text, what)
    if template.name != folder:
        raise ConfigError(what, (FieldError("name", f"is {template.name!r}", f"the folder's name, {folder}"),))
    return template


def _read(model: type[M], text: str | bytes, what: str) -> M:
    try:
        document = parse_document(text.encode() if isinstance(text, str) else text)
    except DocumentError as error:
        raise ConfigError(what, (from_problem(error.problem),)) from None
    found, errors = read_model(model, document)
    if found is None:
        raise ConfigError(what, errors)
    return found


def _count(number: int) -> str:
    return "1 error" if number == 1 else f"{number} errors"
