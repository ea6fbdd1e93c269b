"""FSx for Lustre as a record: the CloudFormation types and Describe calls. There is no file system behind it.

A file system and its association with a bucket are AVAILABLE at once; nothing can be mounted and no data is imported.
"""

from __future__ import annotations

import secrets
import threading
import time
from typing import Any

from ministack.services.cloudformation import provisioners

from sandbox.cloud.context import CloudContext, JsonObject
from sandbox.cloud.model_checked import ApiError, model_checked

SERVICE = "fsx"


def install(context: CloudContext) -> None:
    records = FileSystems(region=context.region, account=context.account)
    context.register_json_service(SERVICE, model_checked("fsx", records.operations, invalid_code="BadRequest"))
    provisioners._RESOURCE_HANDLERS["AWS::FSx::FileSystem"] = {
        "create": records.create_file_system,
        "delete": records.delete_file_system,
    }
    provisioners._RESOURCE_HANDLERS["AWS::FSx::DataRepositoryAssociation"] = {
        "create": records.create_association,
        "delete": records.delete_association,
    }


class FileSystems:
    def __init__(self, *, region: str, account: str) -> None:
        self._region = region
        self._account = account
        self._file_systems: dict[str, JsonObject] = {}
        self._associations: dict[str, JsonObject] = {}
        self._lock = threading.Lock()
        self.operations = {
            "DescribeFileSystems": self._describe_file_systems,
            "DescribeDataRepositoryAssociations": self._describe_associations,
        }

    def create_file_system(self, logical_id: str, properties: JsonObject, _stack: str) -> tuple[str, JsonObject]:
        if properties.get("FileSystemType") != "LUSTRE":
            raise ValueError(f"{logical_id}: the sandbox has FileSystemType LUSTRE only")
        name, mount_name = _new_id("fs"), secrets.token_hex(4)
        record: JsonObject = {
            "FileSystemId": name,
            "FileSystemType": "LUSTRE",
            "Lifecycle": "AVAILABLE",
            "StorageCapacity": int(properties.get("StorageCapacity", 1200)),
            "DNSName": f"{name}.fsx.{self._region}.amazonaws.com",
            "ResourceARN": f"arn:aws:fsx:{self._region}:{self._account}:file-system/{name}",
            "SubnetIds": list(properties.get("SubnetIds", [])),
            "OwnerId": self._account,
            "LustreConfiguration": {**_lustre(properties), "MountName": mount_name},
            "CreationTime": time.time(),
        }
        with self._lock:
            self._file_systems[name] = record
        attributes = {
            "DNSName": record["DNSName"],
            "LustreMountName": mount_name,
            "ResourceARN": record["ResourceARN"],
        }
        return name, attributes

    def delete_file_system(self, name: str, _properties: JsonObject) -> None:
        with self._lock:
            self._file_systems.pop(name, None)

    def create_association(self, logical_id: str, properties: JsonObject, _stack: str) -> tuple[str, JsonObject]:
        file_system = properties.get("FileSystemId")
        if file_system not in self._file_systems:
            raise ValueError(f"{logical_id}: file system {file_system!r} does not exist")
        name = _new_id("dra")
        record = {
            "AssociationId": name,
            "ResourceARN": f"arn:aws:fsx:{self._region}:{self._account}:association/{file_system}/{name}",
            "Lifecycle": "AVAILABLE",
            "CreationTime": time.time(),
        }
        kept = ("FileSystemId", "FileSystemPath", "DataRepositoryPath")
        record.update({key: properties[key] for key in kept if key in properties})
        with self._lock:
            self._associations[name] = record
        return name, {"AssociationId": name, "ResourceARN": record["ResourceARN"]}

    def delete_association(self, name: str, _properties: JsonObject) -> None:
        with self._lock:
            self._associations.pop(name, None)

    def _describe_file_systems(self, params: JsonObject) -> JsonObject:
        return {"FileSystems": _wanted(self._file_systems, params.get("FileSystemIds"), "FileSystemNotFound")}

    def _describe_associations(self, params: JsonObject) -> JsonObject:
        if params.get("Filters"):
            raise ApiError("BadRequest", "Not emulated by the sandbox: Filters")
        wanted = _wanted(self._associations, params.get("AssociationIds"), "DataRepositoryAssociationNotFound")
        return {"Associations": wanted}


def _wanted(records: dict[str, JsonObject], names: list[str] | None, missing_code: str) -> list[JsonObject]:
    for name in names or ():
        if name not in records:
            raise ApiError(missing_code, f"{name} does not exist.")
    return [record for name, record in records.items() if not names or name in names]


def _lustre(properties: JsonObject) -> JsonObject:
    """What Describe shows of the template's own configuration."""
    given: dict[str, Any] = properties.get("LustreConfiguration") or {}
    texts = ("DeploymentType", "DataCompressionType", "WeeklyMaintenanceStartTime")
    shown: JsonObject = {name: given[name] for name in texts if name in given}
    if "PerUnitStorageThroughput" in given:
        shown["PerUnitStorageThroughput"] = int(given["PerUnitStorageThroughput"])
    return shown


def _new_id(prefix: str) -> str:
    return f"{prefix}-{secrets.token_hex(9)[:17]}"
