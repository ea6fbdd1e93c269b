"""Puts a release's bundle into the bucket, and only then says that it is there."""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk
import jsii
from aws_cdk import aws_s3_assets as assets
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from holdfast.bundle import Bundle
from stacks.handler_function import HandlerFunction


class BundlePublication(Construct):
    """The bundle travels as a CDK asset; a custom resource unpacks it under `templates/<digest>/` of the bucket.

    The parameter that names the bundle for the functions changes after that alone, so no run is ever pinned to a prefix
    that is not whole. Nothing removes an older bundle: runs pin their digest.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        bundle: Bundle,
        root: Path,
        publish: HandlerFunction,
        parameter_name: str,
    ) -> None:
        super().__init__(scope, construct_id)
        asset = assets.Asset(
            self,
            "Asset",
            path=str(root / "holdfast_agent"),  # Must exist; what is packed is the bundle's files
            asset_hash=bundle.digest,
            asset_hash_type=cdk.AssetHashType.CUSTOM,
            bundling=cdk.BundlingOptions(
                image=cdk.DockerImage.from_registry("never-used:the-local-bundling-always-answers"),
                local=_BundleFiles(bundle),
                output_type=cdk.BundlingOutput.NOT_ARCHIVED,
            ),
        )
        publish.allow("ReadBundleAsset", ["s3:GetObject"], [asset.bucket.arn_for_objects(asset.s3_object_key)])
        published = cdk.CustomResource(
            self,
            "Published",
            resource_type="Custom::HoldfastBundle",
            service_token=publish.function.function_arn,
            # A function that dies without an answer fails the deployment now, not after CloudFormation's own hour.
            service_timeout=cdk.Duration.minutes(5),
            properties={
                "AssetBucket": asset.s3_bucket_name,
                "AssetKey": asset.s3_object_key,
                "Digest": bundle.digest,
            },
        )
        # The role's policy is a resource of its own; without this the function may run before it may read.
        published.node.add_dependency(publish.role)
        parameter = ssm.StringParameter(
            self,
            "Parameter",
            parameter_name=parameter_name,
            string_value=bundle.digest,
            description="The bundle that new attempts are pinned to: templates/<this>/ in the bucket",
        )
        parameter.node.add_dependency(published)


@jsii.implements(cdk.ILocalBundling)
class _BundleFiles:
    """CDK calls this instead of Docker; not at all when the cloud assembly holds the asset's hash already."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle

    def try_bundle(self, output_dir: str, options: object = None, **_: object) -> bool:  # noqa: ARG002 - CDK passes it
        for name, content in self._bundle.files.items():
            path = Path(output_dir) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return True
