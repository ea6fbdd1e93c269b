"""CloudFormation resource types that MiniStack lacks, and properties that it drops.

INERT_TYPES are recorded and do nothing: a stack with them deploys, what they are for does not happen. Everything else
here reaches the service that it configures.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from ministack.services import ec2, lambda_svc, s3
from ministack.services.cloudformation import provisioners

logger = logging.getLogger("sandbox.cloud")

Properties = dict[str, Any]
Attributes = dict[str, Any]
Create = Callable[[str, Properties, str], tuple[str, Attributes]]

INERT_TYPES: Mapping[str, tuple[str, str]] = {
    "AWS::EC2::FlowLog": ("fl", "no traffic is recorded"),
    "AWS::CloudWatch::CompositeAlarm": ("alarm", "the alarm is never evaluated"),
    "AWS::Logs::QueryDefinition": ("query", "the saved query is not listed"),
    "AWS::EC2::SecurityGroupEgress": ("sgr", "nothing is filtered, in any security group"),
}
"""Type to (prefix of the physical id, what does not happen)."""


def install() -> None:
    handlers = provisioners._RESOURCE_HANDLERS
    for resource_type, (prefix, missing) in INERT_TYPES.items():
        handlers.setdefault(resource_type, {"create": _inert(resource_type, prefix, missing), "delete": _nothing})
    handlers["AWS::EC2::EIP"] = {"create": _create_address, "delete": _release_address}
    handlers["AWS::EC2::NatGateway"] = {"create": _create_nat_gateway, "delete": _delete_nat_gateway}
    handlers["AWS::EC2::SecurityGroupIngress"] = {"create": _create_ingress, "delete": _nothing}
    _also("AWS::EC2::VPC", _vpc_attributes)
    _also("AWS::S3::Bucket", _bucket_tags)
    _also("AWS::Lambda::Function", _function_settings)


def _also(resource_type: str, complete: Callable[[str, Properties], Attributes]) -> None:
    """After MiniStack's own create and update, do what it leaves out; the result adds attributes for Fn::GetAtt."""
    handler = provisioners._RESOURCE_HANDLERS[resource_type]
    create, update = handler["create"], handler.get("update")

    def create_and_complete(logical_id: str, properties: Properties, stack: str) -> tuple[str, Attributes]:
        physical_id, attributes = create(logical_id, properties, stack)
        return physical_id, {**(attributes or {}), **complete(physical_id, properties)}

    handler["create"] = create_and_complete
    if update is None:
        return

    def update_and_complete(
        physical_id: str, old: Properties, new: Properties, *rest: Any, **named: Any
    ) -> tuple[str, Attributes]:
        new_id, attributes = update(physical_id, old, new, *rest, **named)
        return new_id, {**(attributes or {}), **complete(new_id, new)}

    handler["update"] = update_and_complete


def _function_settings(name: str, properties: Properties) -> Attributes:
    """MiniStack drops both on creation: failed events would vanish, and runs of one function would overlap freely."""
    function = lambda_svc._functions[name]
    function["config"].pop("DeadLetterConfig", None)
    if properties.get("DeadLetterConfig"):
        function["config"]["DeadLetterConfig"] = properties["DeadLetterConfig"]
    reserved = properties.get("ReservedConcurrentExecutions")
    function["concurrency"] = None if reserved is None else int(reserved)
    return {}


def _bucket_tags(name: str, properties: Properties) -> Attributes:
    if properties.get("Tags"):
        s3._bucket_tags[name] = {tag["Key"]: tag["Value"] for tag in properties["Tags"]}
    return {}


def _vpc_attributes(_vpc_id: str, properties: Properties) -> Attributes:
    return {"CidrBlock": properties["CidrBlock"]} if "CidrBlock" in properties else {}


def _create_address(_logical_id: str, _properties: Properties, _stack: str) -> tuple[str, Attributes]:
    text = _body(ec2._allocate_address({"Domain": ["vpc"]}))
    address = _element(text, "publicIp")
    return address, {"AllocationId": _element(text, "allocationId"), "PublicIp": address}


def _release_address(address: str, _properties: Properties) -> None:
    ec2._release_address({"PublicIp": [address]})


def _create_nat_gateway(_logical_id: str, properties: Properties, _stack: str) -> tuple[str, Attributes]:
    request = {"SubnetId": [properties["SubnetId"]], "AllocationId": [properties.get("AllocationId", "")]}
    gateway = _element(_body(ec2._create_nat_gateway(request)), "natGatewayId")
    return gateway, {"NatGatewayId": gateway}


def _delete_nat_gateway(gateway: str, _properties: Properties) -> None:
    ec2._delete_nat_gateway({"NatGatewayId": [gateway]})


def _create_ingress(logical_id: str, properties: Properties, _stack: str) -> tuple[str, Attributes]:
    group = ec2._security_groups.get(properties.get("GroupId", ""))
    if group is None:
        raise ValueError(f"{logical_id}: security group {properties.get('GroupId')!r} does not exist")
    group["IpPermissions"].extend(provisioners._ec2_sg_permissions([properties]))
    rule = f"sgr-{secrets.token_hex(9)[:17]}"
    return rule, {"Id": rule}


def _inert(resource_type: str, prefix: str, missing: str) -> Create:
    def create(logical_id: str, _properties: Properties, _stack: str) -> tuple[str, Attributes]:
        logger.warning("%s %s is recorded only: %s", resource_type, logical_id, missing)
        physical_id = f"{prefix}-{secrets.token_hex(9)[:17]}"
        return physical_id, {"Id": physical_id, "Arn": f"arn:aws:sandbox:::{physical_id}"}

    return create


def _nothing(_physical_id: str, _properties: Properties) -> None:
    return None


def _body(answer: tuple[int, Any, Any]) -> str:
    status, _, body = answer
    text = body.decode() if isinstance(body, bytes) else str(body)
    if status != 200:
        raise ValueError(text)
    return text


def _element(text: str, name: str) -> str:
    found = re.search(rf"<{name}>([^<]*)<", text)
    if found is None:
        raise ValueError(f"MiniStack's answer has no {name}: {text}")
    return found.group(1)
