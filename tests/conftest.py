"""How `make test` spreads the tests over processes: the longest first, and what shares a costly fixture together."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parents[1]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # A deployment of a minute that is begun last would be waited for by idle processes. The sort is stable.
    items.sort(key=lambda item: item.get_closest_marker("end_to_end") is None)


class KeptTogether(LoadScopeScheduling):  # type: ignore[misc]
    """A folder with a conftest shares one embedded cloud or one synthesis; in two processes it would be made twice.

    pytest-xdist's own groups (3.8.0) have no effect under pytest 9.2: they are written into a private field of the
    test, which pytest no longer reads.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = PurePosixPath(nodeid.partition("::")[0])
        return str(file.parent if (ROOT / file.parent / "conftest.py").exists() else file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> KeptTogether:
    return KeptTogether(config, log)
