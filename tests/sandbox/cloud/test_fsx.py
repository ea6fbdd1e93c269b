from __future__ import annotations

import pytest

from sandbox.cloud.context import Caller
from sandbox.cloud.fsx import FileSystems
from sandbox.cloud.model_checked import model_checked

PROPERTIES = {
    "FileSystemType": "LUSTRE",
    "StorageCapacity": "1200",
    "SubnetIds": ["subnet-0123456789abcdef0"],
    "LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": "125"},
}


class Anybody:
    principal_arn = "arn:aws:iam::000000000000:root"

    def is_caller_allowed(self, action: str, resource: str, condition: object = None) -> bool:
        return True


CALLER: Caller = Anybody()


@pytest.fixture
def records() -> FileSystems:
    return FileSystems(region="us-east-1", account="000000000000")


def test_a_file_system_of_a_stack_is_described_as_the_model_allows(records: FileSystems) -> None:
    name, attributes = records.create_file_system("Scratch", PROPERTIES, "stack")
    status, body = model_checked("fsx", records.operations, invalid_code="BadRequest")(
        "DescribeFileSystems", {}, CALLER
    )
    assert status == 200
    (found,) = body["FileSystems"]
    assert found["FileSystemId"] == name
    assert found["LustreConfiguration"]["MountName"] == attributes["LustreMountName"]
    assert found["LustreConfiguration"]["PerUnitStorageThroughput"] == 125


def test_an_association_needs_its_file_system(records: FileSystems) -> None:
    with pytest.raises(ValueError, match="file system 'fs-none' does not exist"):
        records.create_association("Data", {"FileSystemId": "fs-none"}, "stack")
    name, _ = records.create_file_system("Scratch", PROPERTIES, "stack")
    association, _ = records.create_association("Data", {"FileSystemId": name, "FileSystemPath": "/data"}, "stack")
    (found,) = records.operations["DescribeDataRepositoryAssociations"]({})["Associations"]
    assert found["AssociationId"] == association


def test_a_deleted_file_system_is_gone(records: FileSystems) -> None:
    name, _ = records.create_file_system("Scratch", PROPERTIES, "stack")
    records.delete_file_system(name, PROPERTIES)
    handle = model_checked("fsx", records.operations, invalid_code="BadRequest")
    status, body = handle("DescribeFileSystems", {"FileSystemIds": [name]}, CALLER)
    assert (status, body["__type"]) == (400, "FileSystemNotFound")


def test_an_unknown_parameter_is_refused(records: FileSystems) -> None:
    handle = model_checked("fsx", records.operations, invalid_code="BadRequest")
    status, body = handle("DescribeFileSystems", {"Name": "x"}, CALLER)
    assert (status, body["__type"]) == (400, "BadRequest")
    assert "Name" in body["message"]


def test_an_operation_that_is_not_emulated_says_so(records: FileSystems) -> None:
    handle = model_checked("fsx", records.operations, invalid_code="BadRequest")
    status, body = handle("CreateFileSystem", {}, CALLER)
    assert (status, body["message"]) == (400, "Not emulated by the sandbox: fsx CreateFileSystem")
