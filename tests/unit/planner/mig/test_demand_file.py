"""The demand file: what is read, and each mistake in one line that names file, field and cure."""

import pytest

from planner.errors import PlannerError
from planner.mig.demand_file import read_demand
from planner.mig.options import WantedProfile, wanted_profile


@pytest.fixture
def read(tmp_path):
    def written(text):
        path = tmp_path / "demand.yaml"
        path.write_text(text)
        return read_demand(path)

    return written


def test_profiles_and_models_are_read(read):
    profiles, models = read(
        "demand:\n  - {profile: 1g.10gb, count: 12, priority: 5}\n"
        "  - {profile: 3g.40gb, count: 1, product: NVIDIA-H200}\n"
        "models:\n  - {name: embedder, memoryGiB: 7.5, replicas: 6}\n"
    )
    assert profiles == (
        WantedProfile("1g.10gb", 12, 5, source="demand file"),
        WantedProfile("3g.40gb", 1, product="NVIDIA-H200", source="demand file"),
    )
    (model,) = models
    assert (model.name, model.memory_mib, model.replicas, model.source) == ("embedder", 7680, 6, "model embedder")


def test_the_memory_of_a_model_of_the_table_is_reckoned(read):
    _, (model,) = read("models: [{name: Qwen/Qwen3-8B, replicas: 2, maxModelLen: 4096}]")
    # 8.19 G x 2 bytes, 4096 tokens x 144 KiB, 4 GiB beside.
    assert model.memory_mib == 15622 + 576 + 4096
    assert model.why.startswith("qwen3-8b: weights 15.3 GiB (bf16)")


def test_nothing_is_wanted_of_a_count_of_zero(read):
    assert read("demand: [{profile: 1g.10gb, count: 0}]") == ((), ())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty; write `demand:` or `models:`"),
        ("[1]", "must be a mapping with `demand:` or `models:`"),
        ("demand: [", "is not YAML"),
        ("demand: {}", "demand: should be a valid list"),
        ("demands: []", "demands: is no key of this file; there are demand, models"),
        ("demand: [{profile: 1g.10gb}]", "demand[0].count: is missing"),
        ("demand: [{count: 1}]", "demand[0].profile: is missing"),
        ("demand: [{profile: 1g.10gb, count: -1}]", "demand[0].count: should be greater than or equal to 0, found -1"),
        ("demand: [{profile: 1g.10gb, count: '3'}]", "demand[0].count: should be a valid integer, found '3'"),
        (
            "demand: [{profile: 1g.10gb, count: 1, prio: 2}]",
            "demand[0].prio: is no key of this file; there are profile",
        ),
        ("demand: [{profile: big, count: 1}]", "demand[0].profile: 'big' is no MIG profile; write one such as 1g.10gb"),
        ("demand: [[1]]", "demand[0]: must be a mapping, found a list"),
        (f"demand: [{{profile: 1g.10gb, count: 0b{'1' * 50000}}}]", "demand[0].count: "),
        ("demand: [{profile: 7, count: 1}]", "demand[0].profile: should be a valid string, found 7"),
        ("models: [{name: m, memoryGiB: 0, replicas: 1}]", "models[0].memoryGiB: should be greater than 0, found 0"),
        ("models: [{name: m, memoryGiB: lots}]", "models[0].memoryGiB: should be a valid number, found 'lots'"),
        ("models: [{name: m, memory: 3}]", "models[0].memory: is no key of this file; there are name, memoryGiB"),
        ("models: [{name: m, replicas: 2}]", "models[0].memoryGiB: missing, and 'm' is not in the table of models"),
    ],
)
def test_a_mistake_is_one_line_with_file_field_and_cure(read, text, words, tmp_path):
    with pytest.raises(PlannerError) as told:
        read(text)
    message = str(told.value)
    assert message.startswith(f"{tmp_path / 'demand.yaml'}: ")
    assert words in message
    assert "\n" not in message


def test_a_value_that_nests_in_itself_is_not_spelled_out(read):
    """Nine lists of nine of the next one are millions of words when they are written out."""
    levels = "".join(f"  - &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 7))
    with pytest.raises(PlannerError, match=r"demand\[0\]: must be a mapping, found a list"):
        read(f"demand:\n  - &l0 [x, x, x, x, x, x, x, x, x]\n{levels}")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(PlannerError, match=r"no-such\.yaml: No such file"):
        read_demand(tmp_path / "no-such.yaml")


def test_a_binary_file_is_told(tmp_path):
    (tmp_path / "demand.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PlannerError, match="is no text"):
        read_demand(tmp_path / "demand.yaml")


@pytest.mark.parametrize("text", ["", "=3", "1g.10gb=", "1g.10gb=-1", "1g.10gb=x", "1g.10gb=0", "1g.10gb=1e3"])
def test_a_profile_flag_that_is_none_is_told(text):
    with pytest.raises(PlannerError, match="--profile"):
        wanted_profile(text)


def test_a_profile_flag_without_a_number_is_one_instance():
    assert wanted_profile("3g.40gb") == WantedProfile("3g.40gb", 1)


def test_too_many_instances_are_refused():
    with pytest.raises(PlannerError, match="more than 100000 instances"):
        wanted_profile("1g.10gb=100001")
