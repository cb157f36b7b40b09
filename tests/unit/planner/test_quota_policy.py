"""A policy file is read, or refused in one line that names the file and the field."""

import pytest

from planner.errors import PlannerError
from planner.quota.policy_file import parse_policy, read_policy


def refusal(text: str) -> str:
    with pytest.raises(PlannerError) as problem:
        parse_policy(text, "teams.yaml")
    assert "\n" not in str(problem.value)
    return str(problem.value)


def test_every_key_of_the_contract_is_read():
    policy = parse_policy(
        "teams: [{name: chat, namespaces: [a, b], clusterQueue: serving, cohort: gpu, shape: {gpus: 4, island: true,"
        " product: NVIDIA-L40S}, baselineReplicas: 2, maxReplicas: 3, weight: 1.5, mayBorrow: false}]\n"
        "surviveNodes: 1\nreserve: {4: 2}\n",
        "teams.yaml",
    )
    team = policy.teams[0]
    assert (team.name, team.namespaces, team.queue, team.cohort) == ("chat", ["a", "b"], "serving", "gpu")
    assert team.shape is not None
    assert (team.shape.gpus, team.shape.island, team.shape.product) == (4, True, "NVIDIA-L40S")
    assert (team.baseline_replicas, team.max_replicas, team.weight, team.may_borrow) == (2, 3, 1.5, False)
    assert (policy.survive_nodes, policy.reserve) == (1, {4: 2})


def test_json_is_read_too_although_its_keys_are_texts():
    assert parse_policy('{"teams": [], "reserve": {"4": 2}}', "p.json").reserve == {4: 2}


def test_a_team_without_a_queue_of_its_own_name_gets_one_of_its_name():
    assert parse_policy("teams: [{name: chat}]", "p.yaml").teams[0].queue == "chat"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("teams: [{nam: x}]", "teams.yaml: teams[0].name: is missing"),
        ("teams: [{name: a, colour: red}]", "teams.yaml: teams[0].colour: unknown key"),
        ("teams: [{name: A_}]", "teams.yaml: teams[0].name: 'A_' is not a name such as chat or team-a.chat"),
        ("teams: [{name: a, namespaces: [x.y]}]", "teams[0].namespaces[0]: 'x.y' is not the name of a namespace"),
        ("teams: [{name: a, shape: 4}]", "teams[0].shape: should be a mapping of keys"),
        ("teams: [{name: a, shape: {gpus: 0}}]", "teams[0].shape.gpus: input should be greater than or equal to 1"),
        ("teams: [{name: a, shape: {gpus: '4'}}]", "teams[0].shape.gpus: input should be a valid integer"),
        ("teams: [{name: a, weight: -1}]", "teams[0].weight: input should be greater than or equal to 0.001"),
        ("teams: [{name: a, weight: true}]", "teams[0].weight: input should be a valid number"),
        ("teams: [{name: a, weight: '2'}]", "teams[0].weight: input should be a valid number"),
        ("reserve: {true: 1}", "input should be a valid integer"),
        ("teams: [{name: a, baselineReplicas: 2, maxReplicas: 1}]", "maxReplicas 1 is below baselineReplicas 2"),
        ("teams: [{name: a}, {name: a}]", "two teams are called a"),
        ("teams: [{name: a, namespaces: [n]}, {name: b, namespaces: [n]}]", "namespace n belongs to two teams"),
        (
            "teams: [{name: a, clusterQueue: q, cohort: x}, {name: b, clusterQueue: q, cohort: y}]",
            "clusterQueue q has two cohorts, x and y",
        ),
        ("reserve: {4: -1}", "reserve[4]: input should be greater than or equal to 0"),
        ("surviveNodes: many", "surviveNodes: input should be a valid integer"),
        ("teams: [", "teams.yaml: line 1: not valid YAML"),
        ("just text", "teams.yaml: must be a mapping of keys such as `teams: [...]`"),
        ("", "teams.yaml: must be a mapping of keys"),
    ],
)
def test_a_bad_policy_is_refused_with_file_and_field(text, told):
    assert told in refusal(text)


@pytest.mark.parametrize("text", ["reserve: {8: 1}", '{"reserve": {"8": 1}}'])
def test_the_keys_of_a_reserve_are_numbers_in_yaml_and_texts_in_json(text):
    assert parse_policy(text, "p.yaml").reserve == {8: 1}


def test_two_teams_share_a_namespace_when_nothing_is_read_from_its_pods():
    text = "teams: [{name: a, namespaces: [n], shape: {gpus: 1}, baselineReplicas: 0}, {name: b, namespaces: [n]}]"
    assert len(parse_policy(text, "p.yaml").teams) == 2


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(PlannerError, match=r"--policy .*gone\.yaml: cannot be read: No such file"):
        read_policy(tmp_path / "gone.yaml")
