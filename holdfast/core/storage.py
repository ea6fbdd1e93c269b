"""How long the bucket keeps what, in which storage class and under which key; what S3 would refuse is refused here."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

# S3: an object lies 30 days in Standard before it may go to Standard-IA, and 30 days there before it may go on (user
# guide, "Constraints and considerations for transitions").
DAYS_BEFORE_INFREQUENT = 30
DAYS_IN_INFREQUENT = 30

KeptPrefix = Literal["data", "checkpoints", "output"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Lifetime(_Strict):
    """Days since an object was written. Only storage classes that answer at once: a restart waits for nobody's thaw."""

    infrequent_after_days: int | None = Field(default=None, ge=DAYS_BEFORE_INFREQUENT)
    """To Standard-IA: about half the price a GB, a fee for each GB read, at least 30 days and 128 KB billed."""
    archive_after_days: int | None = Field(default=None, ge=0)
    """To Glacier Instant Retrieval: cheaper again, a higher fee for each GB read, at least 90 days billed."""
    delete_after_days: int | None = Field(default=None, ge=1)
    """Deleted for good once its version has expired too. Not for checkpoints: S3 deletes object by object, so a
    checkpoint would lose parts and keep its seal. The agent deletes old ones, whole."""

    @model_validator(mode="after")
    def _in_an_order_that_s3_takes(self) -> Lifetime:
        infrequent, archive, delete = self.infrequent_after_days, self.archive_after_days, self.delete_after_days
        if infrequent is not None and archive is not None and archive < infrequent + DAYS_IN_INFREQUENT:
            raise ValueError(
                f"archive_after_days: is {archive}; S3 keeps an object {DAYS_IN_INFREQUENT} days in Standard-IA first: "
                f"write {infrequent + DAYS_IN_INFREQUENT} or more"
            )
        last = max((days for days in (infrequent, archive) if days is not None), default=None)
        if delete is not None and last is not None and delete <= last:
            raise ValueError(f"delete_after_days: is {delete}; it has to come after the move on day {last}")
        return self


class Storage(_Strict):
    """The bucket: encryption, metrics, and how long what is kept."""

    key: Literal["s3", "own"] = "s3"
    """`s3`: encrypted with S3's own keys, free. `own`: one KMS key of this deployment for bucket and notices, with
    bucket keys, so that S3 asks KMS seldom; who reads then needs the key as well."""
    request_metrics: bool = False
    """S3's metrics a minute for `data/`, `checkpoints/` and everything, and alarms on refused requests (503 among them)
    and slow first bytes. CloudWatch bills each series; docs/costs.md has the sum."""
    lifetimes: dict[KeptPrefix, Lifetime] = Field(default_factory=dict)
    """For `data`, `checkpoints` and `output`. Manifests, status and templates are small and stay."""

    @model_validator(mode="after")
    def _whole_checkpoints(self) -> Storage:
        kept = self.lifetimes.get("checkpoints")
        if kept is not None and kept.delete_after_days is not None:
            raise ValueError(
                "lifetimes.checkpoints.delete_after_days: S3 deletes object by object and would leave a seal without "
                "its files; leave it out: the agent deletes old ones whole, by the manifest's `checkpoints.keep`"
            )
        return self
