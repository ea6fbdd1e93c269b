"""The arithmetic from the config's section to the quotas that an account needs."""

from __future__ import annotations

import pytest

from holdfast.core.quotas import catalogue
from holdfast.core.quotas.wishes import InstanceQuota, QuotaNeeds, Quotas, quotas_to_read, wanted_quotas
from holdfast.core.read_config import ConfigError, read_config
from tests.core.test_read_config import SOUND

P4D, M5 = "ml.p4d.24xlarge", "ml.m5.xlarge"


def wanted(quotas: Quotas, max_instances_per_run: int = 16) -> dict[str, float]:
    needs = QuotaNeeds(quotas=quotas, instance_types=(P4D, M5), max_instances_per_run=max_instances_per_run)
    return {one.name: one.value for one in wanted_quotas(needs)}


def test_fifty_profiled_jobs_need_fifty_processing_instances_of_the_profilers_type() -> None:
    assert wanted(Quotas(profiled_jobs=50)) == {
        "ml.m5.2xlarge for processing job usage": 50,
        "Number of instances across all processing jobs": 50,
    }


def test_without_profiled_jobs_no_processing_instance_is_wanted() -> None:
    assert not [name for name in wanted(Quotas(longest_run_seconds=864_000)) if "processing" in name]


def test_nothing_is_wanted_by_a_config_that_says_nothing() -> None:
    assert wanted(Quotas()) == {}


def test_on_demand_spot_and_warm_pool_are_three_quotas() -> None:
    found = wanted(Quotas(instances=(InstanceQuota(instance_type=P4D, on_demand=8, spot=2, warm_pool=4),)))
    assert (found[f"{P4D} for training job usage"], found[f"{P4D} for spot training job usage"]) == (8, 2)
    assert found[f"{P4D} for training warm pool usage"] == 4


def test_the_account_wide_quotas_follow_the_counts_since_these_are_of_no_use_below_them() -> None:
    both = (InstanceQuota(instance_type=P4D, on_demand=32), InstanceQuota(instance_type=M5, on_demand=8))
    found = wanted(Quotas(instances=both), max_instances_per_run=16)
    assert found[catalogue.INSTANCES_ACROSS_ALL_JOBS] == 40
    assert found[catalogue.INSTANCES_PER_JOB] == 16
    assert catalogue.SPOT_INSTANCES_ACROSS_ALL_JOBS not in found


def test_no_job_is_wanted_larger_than_the_quota_of_its_type() -> None:
    found = wanted(Quotas(instances=(InstanceQuota(instance_type=P4D, on_demand=8),)), max_instances_per_run=16)
    assert found[catalogue.INSTANCES_PER_JOB] == 8


def test_what_the_config_states_for_the_account_holds_over_what_would_follow() -> None:
    one = (InstanceQuota(instance_type=P4D, on_demand=8),)
    found = wanted(Quotas(instances=one, instances_across_all_jobs=100, instances_per_job=4))
    assert (found[catalogue.INSTANCES_ACROSS_ALL_JOBS], found[catalogue.INSTANCES_PER_JOB]) == (100, 4)


def test_each_wish_says_what_of_the_config_asks_for_it() -> None:
    needs = QuotaNeeds(quotas=Quotas(profiled_jobs=50), instance_types=(M5,), max_instances_per_run=1)
    assert {one.why for one in wanted_quotas(needs)} == {"quotas.profiled_jobs: 50 jobs, 1 ml.m5.2xlarge each"}


def test_what_a_run_is_measured_by_is_read_also_where_nothing_is_wanted() -> None:
    names = quotas_to_read(QuotaNeeds(instance_types=(M5,), max_instances_per_run=1))
    assert set(names) == {
        *catalogue.ACCOUNT_WIDE,
        "ml.m5.xlarge for training job usage",
        "ml.m5.xlarge for spot training job usage",
    }


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("instances: [{instance_type: ml.m5.xlrge, on_demand: 4}]", "did you mean `ml.m5.xlarge`?"),
        ("instances: [{instance_type: ml.zz9.huge, on_demand: 4}]", "in neither `instance_types` nor AWS's lists"),
        ("instances: [{instance_type: ml.p4de.24xlarge, on_demand: 4}]", "is not in `instance_types`, so no run"),
        ("instances: [{instance_type: p4d, on_demand: 4}]", "a SageMaker instance type, such as ml.g5.12xlarge"),
        ("instances: [{instance_type: ml.m5.xlarge, ondemand: 4}]", "did you mean `on_demand`?"),
        ("instances: [{instance_type: ml.m5.xlarge, on_demand: 0}]", "at least 1"),
        ("instances: [{instance_type: ml.m5.xlarge}, {instance_type: ml.m5.xlarge}]", "stands there twice"),
        ("longest_run_secs: 1", "did you mean `longest_run_seconds`?"),
        ("longest_run_seconds: 10d", "write 864000"),
        ("longest_run_seconds: 2419201", "at most 2,419,200"),
        (
            "{instances: [{instance_type: ml.m5.xlarge, on_demand: 9}], instances_across_all_jobs: 8}",
            "make it 9 or more",
        ),
    ],
)
def test_a_section_that_does_not_fit_is_refused_in_words(section: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_config(f"{SOUND}\nquotas:\n  {section}\n")
    assert words in str(refused.value)
    assert "quotas" in str(refused.value)


def test_a_sound_section_is_read() -> None:
    config = read_config(f"{SOUND}\nquotas:\n  instances: [{{instance_type: ml.m5.xlarge, on_demand: 9}}]\n")
    assert config.quotas.instances == (InstanceQuota(instance_type=M5, on_demand=9),)


def test_the_catalogue_knows_the_codes_of_the_facts_and_no_code_twice() -> None:
    assert catalogue.code_of("ml.p4d.24xlarge for training job usage") == "L-09B4A649"
    assert catalogue.code_of("ml.p4d.24xlarge for training warm pool usage") == "L-A8827666"
    assert catalogue.code_of("Number of instances across all training jobs") == "L-00C91CB5"
    assert catalogue.code_of("ml.trn2.48xlarge for training job usage") is None
    codes = [catalogue.code_of(name) for name in catalogue.known_names()]
    assert len(codes) == len(set(codes)) > 400
    assert len(catalogue.known_types()) == 132
