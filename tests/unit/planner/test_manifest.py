import io

import pytest

from planner.errors import PlannerError
from planner.manifest import pod_of_manifest

CONTAINERS = "containers: [{name: vllm, args: [--tensor-parallel-size=4], resources: {limits: {nvidia.com/gpu: 4}}}]"
POD = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: llama}}\nspec: {{{CONTAINERS}}}\n"
DEPLOYMENT = f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: llama, namespace: chat}}
spec:
  replicas: 2
  template:
    metadata: {{annotations: {{islander.dev/topology: required}}}}
    spec: {{{CONTAINERS}}}
"""
GROUP = f"""
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {{name: llama}}
spec: {{leaderWorkerTemplate: {{size: 2, workerTemplate: {{spec: {{{CONTAINERS}}}}}}}}}
"""
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: llama}\nspec: {ports: [{port: 80}]}\n"


def read(tmp_path, text, namespace="default"):
    file = tmp_path / "manifest.yaml"
    file.write_text(text)
    return pod_of_manifest(str(file), namespace)


def gpus(pod):
    return pod.spec.requests.count("nvidia.com/gpu")


def test_a_pod_gets_the_namespace_of_the_command_line(tmp_path):
    pod = read(tmp_path, POD, "chat")
    assert (pod.key, gpus(pod), pod.node) == ("chat/llama", 4, "")


def test_the_template_of_a_deployment_keeps_its_annotations_and_namespace(tmp_path):
    pod = read(tmp_path, DEPLOYMENT, "default")
    assert (pod.key, gpus(pod)) == ("chat/llama", 4)
    assert pod.annotation("islander.dev/topology") == "required"


def test_the_worker_of_a_leader_worker_set_is_read(tmp_path):
    assert gpus(read(tmp_path, GROUP)) == 4


def test_other_objects_of_the_file_are_passed_over(tmp_path):
    assert gpus(read(tmp_path, f"{SERVICE}---\n{POD}")) == 4


def test_stdin_is_read(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(POD.encode())))
    assert gpus(pod_of_manifest("-", "default")) == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SERVICE, "must describe one pod .* has none"),
        (f"{POD}---\n{DEPLOYMENT}", "has default/llama, chat/llama"),
        ("a: [", "neither JSON nor YAML"),
        ("just words", "has none"),
        (POD.replace("nvidia.com/gpu: 4", "nvidia.com/gpu: four"), "four"),
    ],
)
def test_what_is_no_single_pod_is_one_clear_line(tmp_path, text, message):
    with pytest.raises(PlannerError, match=message) as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(PlannerError, match=r"gone\.yaml: No such file"):
        pod_of_manifest(str(tmp_path / "gone.yaml"), "default")
