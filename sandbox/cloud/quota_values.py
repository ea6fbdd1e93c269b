"""The account's quotas of SageMaker training, by name: one store for Service Quotas, which raises them, and for the
training plane, which refuses beyond them.

Names and codes are those of the public lists (holdfast/core/quotas/sagemaker_quotas.json). The defaults of the
account-wide quotas are AWS's (general reference, Amazon SageMaker endpoints and quotas), of warm pools too (developer
guide, train-warm-pools-resource-limits). Those of single instance types differ from account to account and are assumed:
new accounts start with none of the large instances.
"""

from __future__ import annotations

import fnmatch
import threading
from collections.abc import Mapping

from holdfast.core.quotas.catalogue import code_of, known_names

DEFAULTS: Mapping[str, float] = {
    "Longest run time for a * job": 432_000,
    "Maximum number of instances per *": 20,
    "Number of instances across all *": 4,
    "* for training warm pool usage": 0,
    # Assumed: nothing that is large or scarce, four of everything else.
    "ml.p* for *training job usage": 0,
    "ml.trn* for *training job usage": 0,
    "*": 4,
}
"""Name, or pattern of names, to value; the first match holds."""

CODES: Mapping[str, str] = {code: name for name in known_names() if (code := code_of(name)) is not None}


class QuotaValues:
    """Thread-safe. `overlay` maps a quota's name, or a pattern of names, to a value that holds over the defaults."""

    def __init__(self, overlay: Mapping[str, float] | None = None) -> None:
        self._lock = threading.Lock()
        self._set: dict[str, float] = {}
        self._values = {
            **(overlay or {}),
            **{name: value for name, value in DEFAULTS.items() if name not in (overlay or {})},
        }

    def set(self, name: str, value: float) -> None:
        with self._lock:
            self._set[name] = value

    def limit(self, name: str) -> float:
        with self._lock:
            if name in self._set:
                return self._set[name]
        return next(value for pattern, value in self._values.items() if fnmatch.fnmatchcase(name, pattern))

    @staticmethod
    def default(name: str) -> float:
        """What AWS gives every account."""
        return next(value for pattern, value in DEFAULTS.items() if fnmatch.fnmatchcase(name, pattern))
