from __future__ import annotations

from pathlib import Path

import pytest

from stacks.application import config_of_context, define_stacks
from tests.stacks.synthesis import ROOT, Templates, write_stack


def _synthesized(name: str, outdir: Path) -> Templates:
    config = config_of_context(f"config/{name}.yaml", ROOT)
    return write_stack(outdir, lambda app: define_stacks(app, config=config, root=ROOT))


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    """What `make demo` deploys."""
    return _synthesized("sandbox", tmp_path_factory.mktemp("sandbox"))


@pytest.fixture(scope="session")
def account(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    """What an account with config/example.yaml gets."""
    return _synthesized("example", tmp_path_factory.mktemp("example"))
