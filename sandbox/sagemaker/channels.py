"""What lies in /opt/ml/input when a host starts: the channels' files and the three documents of `config/`.

Sources: developer guide, "How Amazon SageMaker AI Provides Training Information" (your-algorithms-training-algo-
running-container); API reference, S3DataSource.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sandbox.sagemaker.host import Host
from sandbox.sagemaker.storage import Clients, Location, StorageError, download, has_objects, inside, keys, location

JsonObject = dict[str, Any]

NETWORK_INTERFACE = "lo0" if os.uname().sysname == "Darwin" else "lo"
"""SageMaker: eth0. Hosts of the sandbox meet on the loopback interface."""

_GROUP = "homogeneousCluster"
"""Name that SageMaker gives to the only group of a job without instance groups."""


def channel_refusal(clients: Clients, channel: JsonObject, role_arn: str, region: str) -> str | None:
    """CreateTrainingJob refuses a channel without objects; the text, or None. Also when the role may not list them."""
    at = _source(channel)
    try:
        if has_objects(clients, at):
            return None
        said = ""
    except StorageError as error:
        said = f" Error message from S3: {error.message}"
    # aws/amazon-sagemaker-examples#2489; the part from S3 as hashicorp/terraform-provider-aws matches it.
    return (
        f'No S3 objects found under S3 URL "{_source_uri(channel)}" given in input data source. Please ensure that the '
        f"bucket exists in the selected region ({region}), that objects exist under that S3 prefix, and that the role "
        f'"{role_arn}" has "s3:ListBucket" permissions on bucket "{at.bucket}".{said}'
    )


def download_channels(clients: Clients, request: JsonObject, hosts: Sequence[Host]) -> None:
    """Every channel to every host, or its share to each with ShardedByS3Key.

    FastFile is a download here too: the files are there when the host starts, and later objects are not seen.
    Raises StorageError, with the text that follows "Data download failed:".
    """
    for channel in request.get("InputDataConfig", []):
        at = _source(channel)
        listed = [key for key in keys(clients, at) if not key.endswith("/")]
        for key in listed:
            if "//" in key:  # aws-samples/generative-ai-on-amazon-sagemaker#242
                raise StorageError("ClientError", 400, f"S3 key: s3://{at.bucket}/{key} has an illegal char "
                                                       "sub-sequence '//' in it")  # fmt: skip
        distribution = channel["DataSource"]["S3DataSource"].get("S3DataDistributionType", "FullyReplicated")
        shares = [listed[number :: len(hosts)] if distribution == "ShardedByS3Key" else listed
                  for number in range(len(hosts))]  # fmt: skip
        _fetch(clients, at, channel["ChannelName"], hosts, shares)


def _fetch(
    clients: Clients, at: Location, channel: str, hosts: Sequence[Host], shares: Sequence[Sequence[str]]
) -> None:
    """Each object is fetched once and copied to the other hosts that get it."""
    fetched: dict[str, Path] = {}
    for host, share in zip(hosts, shares, strict=True):
        folder = host.tree / "input/data" / channel
        folder.mkdir(parents=True, exist_ok=True)
        for key in share:
            target = inside(folder, local_name(key, at.prefix))
            if key in fetched:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(fetched[key], target)
            else:
                download(clients, at.bucket, key, target)
                fetched[key] = target


def local_name(key: str, prefix: str) -> str:
    """Where an object lands below its channel's folder.

    The prefix names a folder (with or without its slash), one object, or the beginning of names (assumed: then the
    names from the last slash of the prefix on).
    """
    if key == prefix:
        return key.rpartition("/")[2]
    folder = prefix if prefix.endswith("/") or not prefix else prefix + "/"
    if key.startswith(folder):
        return key[len(folder) :]
    return key[len(prefix.rpartition("/")[0]) :].lstrip("/")


def write_config(request: JsonObject, host: Host, hosts: Sequence[Host]) -> None:
    """resourceconfig.json, hyperparameters.json and inputdataconfig.json of one host."""
    folder = host.tree / "input/config"
    # Sorted as text, as SageMaker sorts them: algo-1, algo-10, algo-2.
    addresses = sorted(member.address for member in hosts)
    instance_type = request["ResourceConfig"]["InstanceType"]
    _write(
        folder / "resourceconfig.json",
        {
            "current_host": host.address,
            "current_instance_type": instance_type,
            "current_group_name": _GROUP,
            "hosts": addresses,
            "instance_groups": [
                {"instance_group_name": _GROUP, "instance_type": instance_type, "hosts": addresses}
            ],
            "network_interface_name": NETWORK_INTERFACE,
        },
    )  # fmt: skip
    _write(folder / "hyperparameters.json", request.get("HyperParameters", {}))
    default_mode = request["AlgorithmSpecification"]["TrainingInputMode"]
    _write(
        folder / "inputdataconfig.json",
        {channel["ChannelName"]: _described(channel, default_mode) for channel in request.get("InputDataConfig", [])},
    )


def _described(channel: JsonObject, default_mode: str) -> JsonObject:
    described = {
        "TrainingInputMode": channel.get("InputMode", default_mode),
        "S3DistributionType": channel["DataSource"]["S3DataSource"].get("S3DataDistributionType", "FullyReplicated"),
        "RecordWrapperType": channel.get("RecordWrapperType", "None"),
    }
    return {**described, "ContentType": channel["ContentType"]} if "ContentType" in channel else described


def _write(path: Path, document: JsonObject) -> None:
    path.write_text(json.dumps(document))


def _source_uri(channel: JsonObject) -> str:
    return str(channel["DataSource"]["S3DataSource"]["S3Uri"])


def _source(channel: JsonObject) -> Location:
    return location(_source_uri(channel))
