"""Entry of `cdk synth` and `cdk deploy`: one account's config in, its CloudFormation templates out. Calls no AWS."""

from __future__ import annotations

import sys
from pathlib import Path

import aws_cdk as cdk

from holdfast.bundle import BundleError
from holdfast.core.read_config import ConfigError
from stacks.application import ContextError, config_of_context, define_stacks
from stacks.lambda_code import LambdaCodeError

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
