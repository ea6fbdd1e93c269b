"""AWS's validation, against botocore's model of the SageMaker API."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.model import ListShape, MapShape, Shape, StructureShape

from sandbox.sagemaker.api import service_model
from sandbox.sagemaker.shape_check import WrongTypeError, compiled, message, unknown_members, violations

OPERATIONS = (
    "CreateTrainingJob",
    "DescribeTrainingJob",
    "ListTrainingJobs",
    "StopTrainingJob",
    "ListTags",
    "AddTags",
)


def create_shape() -> Shape:
    shape = service_model().operation_model("CreateTrainingJob").input_shape
    assert shape is not None
    return shape


def a_request(**more: Any) -> dict[str, Any]:
    return {
        "TrainingJobName": "job",
        "RoleArn": "arn:aws:iam::000000000000:role/job",
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
        **more,
    }


def test_a_whole_request_breaks_nothing() -> None:
    assert violations(create_shape(), a_request()) == []


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        (
            {"TrainingJobName": "under_score"},
            (
                "Value 'under_score' at 'trainingJobName' failed to satisfy constraint: Member must satisfy regular "
                "expression pattern: [a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}"
            ),
        ),
        (
            {"RoleArn": None},
            "Value null at 'roleArn' failed to satisfy constraint: Member must not be null",
        ),
        (
            {"StoppingCondition": {"MaxRuntimeInSeconds": 0}},
            (
                "Value '0' at 'stoppingCondition.maxRuntimeInSeconds' failed to satisfy constraint: Member must have "
                "value greater than or equal to 1"
            ),
        ),
        (
            {"Tags": [{"Key": "k", "Value": "v"}, {"Key": "", "Value": "v"}]},
            (
                "Value '' at 'tags.2.member.key' failed to satisfy constraint: Member must have length greater than or "
                "equal to 1"
            ),
        ),
        (
            {"HyperParameters": {"text": "two\nlines"}},
            (
                "Value '{text=two\nlines}' at 'hyperParameters' failed to satisfy constraint: Map value must satisfy "
                "constraint: [Member must satisfy regular expression pattern: .*]"
            ),
        ),
        (
            {"Environment": {"not a name": "x"}},
            (
                "Value '{not a name=x}' at 'environment' failed to satisfy constraint: Map keys must satisfy "
                "constraint: [Member must satisfy regular expression pattern: [a-zA-Z_][a-zA-Z0-9_]*]"
            ),
        ),
    ],
)
def test_a_violation_is_worded_as_aws_words_it(broken: dict[str, Any], expected: str) -> None:
    assert [str(found) for found in violations(create_shape(), a_request(**broken))] == [expected]


def test_an_unknown_instance_type_is_refused_with_the_set_of_known_ones() -> None:
    (found,) = violations(create_shape(), a_request(ResourceConfig={"InstanceType": "ml.m5.huge", "InstanceCount": 1}))
    assert found.path == "resourceConfig.instanceType"
    assert found.constraint.startswith("Member must satisfy enum value set: [ml.m4.xlarge, ")


def test_an_environment_value_may_have_512_characters_and_not_513() -> None:
    assert violations(create_shape(), a_request(Environment={"A": "x" * 512})) == []
    assert len(violations(create_shape(), a_request(Environment={"A": "x" * 513}))) == 1


def test_all_violations_are_reported_at_once_with_their_number() -> None:
    found = violations(create_shape(), {"TrainingJobName": "x" * 64, "OutputDataConfig": {}})
    # A name of 64 breaks the pattern and the length; the role and the output path are missing.
    assert message(found).startswith("4 validation errors detected: Value null at 'roleArn' failed")
    assert message(found[:1]).startswith("1 validation error detected: ")


@pytest.mark.parametrize(
    "wrong", [{"TrainingJobName": 7}, {"Tags": {}}, {"EnableNetworkIsolation": "yes"}, {"Environment": ["A=1"]},
              {"StoppingCondition": {"MaxRuntimeInSeconds": True}}]
)  # fmt: skip
def test_a_value_of_another_type_cannot_be_read(wrong: dict[str, Any]) -> None:
    with pytest.raises(WrongTypeError, match="can not be converted to a"):
        violations(create_shape(), a_request(**wrong))


def test_unknown_members_are_found_at_every_depth() -> None:
    request = a_request(Retries=1, Tags=[{"Key": "k", "Value": "v", "Kind": 1}])
    assert unknown_members(create_shape(), request) == ["Retries", "Tags[0].Kind"]


def test_every_pattern_of_the_operations_served_can_be_checked() -> None:
    patterns: set[str] = set()
    model = service_model()
    for name in OPERATIONS:
        operation = model.operation_model(name)
        for shape in (operation.input_shape, operation.output_shape):
            if shape is not None:
                _collect(shape, patterns, set())
    assert len(patterns) > 20
    for pattern in patterns:
        compiled(pattern)


def test_a_tag_may_hold_letters_of_any_script_and_no_exclamation_mark() -> None:
    assert violations(create_shape(), a_request(Tags=[{"Key": "größe", "Value": "集群 1"}])) == []
    assert len(violations(create_shape(), a_request(Tags=[{"Key": "size!", "Value": "v"}]))) == 1


def _collect(shape: Shape, patterns: set[str], seen: set[str]) -> None:
    if shape.name in seen:
        return
    seen.add(shape.name)
    if "pattern" in shape.metadata:
        patterns.add(shape.metadata["pattern"])
    inner: list[Shape] = []
    if isinstance(shape, StructureShape):
        inner = list(shape.members.values())
    elif isinstance(shape, ListShape):
        inner = [shape.member]
    elif isinstance(shape, MapShape):
        inner = [shape.key, shape.value]
    for one in inner:
        _collect(one, patterns, seen)
