"""Entry of `cdk synth` and `cdk deploy`: one account's config in, its CloudFormation templates out. Calls no AWS."""

from __future__ import annotations

import sys
from pathlib import Path

# `npx cdk synth` starts whatever `python3` comes first on the person's PATH.
_INSTEAD = "use make synth or make deploy, which bring their own Python, or put .venv/bin first on the PATH"
if sys.version_info < (3, 11):  # noqa: UP036 - it is asked of a Python that nobody chose
    sys.exit(f"holdfast: needs Python 3.11 or newer, which {sys.executable} is not; {_INSTEAD}")
try:
    import aws_cdk as cdk

    from holdfast.bundle import BundleError
    from holdfast.core.read_config import ConfigError
    from stacks.application import ContextError, config_of_context, define_stacks
    from stacks.lambda_code import LambdaCodeError
except ModuleNotFoundError as missing:
    sys.exit(f"holdfast: {sys.executable} has no module {missing.name}; {_INSTEAD}")

ROOT = Path(__file__).resolve().parent


def main() -> None:
    app = cdk.App()
    try:
        config = config_of_context(app.node.try_get_context("config"), ROOT)
        define_stacks(app, config=config, root=ROOT)
        app.synth()
    except (ContextError, ConfigError, BundleError, LambdaCodeError) as error:
        sys.exit(f"holdfast: {error}")


if __name__ == "__main__":
    main()
