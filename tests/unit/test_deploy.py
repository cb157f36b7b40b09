"""The manifests under deploy/: what can be checked without a cluster. tests/kwok applies them to a real API server."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from extender.config import parse_config
from extender.scheduler_config import scheduler_config
from islander.cluster.names import DEFAULT_GPU_RESOURCES
from islander.hardware.mig import MIG_RESOURCES
from islander.kube.kinds import WATCHED_KINDS
from islander.kube.parse import GROUPS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
MANIFESTS = sorted(DEPLOY.rglob("*.yaml"))


def documents(path: Path) -> list[Any]:
    return list(YAML(typ="safe", pure=True).load_all(path.read_text()))


def objects() -> Iterator[dict[str, Any]]:
    """Every Kubernetes object under deploy/: not kustomizations, patches, or files of a scheduler."""
    for path in MANIFESTS:
        for document in documents(path):
            if isinstance(document, dict) and "metadata" in document:
                yield document


def named(kind: str, name: str) -> dict[str, Any]:
    found = [o for o in objects() if o["kind"] == kind and o["metadata"]["name"] == name]
    assert len(found) == 1, f"{kind} {name}: {len(found)} of them"
    return found[0]


def pod_templates() -> list[tuple[str, dict[str, Any]]]:
    return [(o["metadata"]["name"], o["spec"]["template"]) for o in objects() if o["kind"] == "Deployment"]


def scheduler_configs() -> dict[str, dict[str, Any]]:
    yaml = YAML(typ="safe", pure=True)
    return {
        "second": yaml.load(named("ConfigMap", "islander-scheduler")["data"]["scheduler.yaml"]),
        "cluster": documents(DEPLOY / "scheduler/cluster/scheduler.yaml")[0],
    }


@pytest.mark.parametrize("folder", [p.parent for p in DEPLOY.rglob("kustomization.yaml")], ids=str)
def test_a_kustomization_lists_every_manifest_of_its_folder(folder):
    listed = documents(folder / "kustomization.yaml")[0]["resources"]
    assert sorted(listed) == sorted(p.name for p in folder.glob("*.yaml") if p.name != "kustomization.yaml")


def test_every_object_carries_the_usual_labels_and_a_namespace_that_exists():
    for obj in objects():
        metadata = obj["metadata"]
        assert metadata["labels"]["app.kubernetes.io/part-of"] == "islander", metadata["name"]
        assert metadata.get("namespace", "islander") in ("islander", "kube-system")


def test_the_extender_may_list_and_watch_exactly_the_kinds_it_watches_and_nothing_else():
    granted = {
        (group, resource, verb)
        for rule in named("ClusterRole", "islander-extender")["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    # The last part of a collection's path is the resource's name.
    watched = {(GROUPS[kind.kind], kind.path.rsplit("/", 1)[1]) for kind in WATCHED_KINDS}
    assert granted == {(group, resource, verb) for group, resource in watched for verb in ("list", "watch")}


def test_binding_is_granted_by_the_optional_component_alone():
    with_binding = [
        o["metadata"]["name"]
        for o in objects()
        if o["kind"] in ("ClusterRole", "Role") and any("pods/binding" in r["resources"] for r in o["rules"])
    ]
    assert with_binding == ["islander-extender-bind"]
    assert named("ClusterRole", "islander-extender-bind")["rules"] == [
        {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]}
    ]
    assert "bind" not in str(documents(DEPLOY / "base/kustomization.yaml")[0])


def test_a_role_binding_names_a_role_of_ours_or_of_the_cluster_and_an_account_that_exists():
    accounts = {o["metadata"]["name"] for o in objects() if o["kind"] == "ServiceAccount"}
    roles = {(o["kind"], o["metadata"]["name"]) for o in objects() if o["kind"] in ("Role", "ClusterRole")}
    of_the_cluster = {
        ("ClusterRole", "system:kube-scheduler"),
        ("ClusterRole", "system:volume-scheduler"),
        ("Role", "extension-apiserver-authentication-reader"),
    }
    for obj in objects():
        if obj["kind"] in ("RoleBinding", "ClusterRoleBinding"):
            assert (obj["roleRef"]["kind"], obj["roleRef"]["name"]) in roles | of_the_cluster
            assert {subject["name"] for subject in obj["subjects"]} <= accounts


@pytest.mark.parametrize(("name", "template"), pod_templates(), ids=[name for name, _ in pod_templates()])
def test_pods_satisfy_the_restricted_pod_security_standard_with_a_read_only_root(name, template):
    spec = template["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not spec.keys() & {"hostNetwork", "hostPID", "hostIPC"}
    assert all("hostPath" not in volume for volume in spec["volumes"])
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@pytest.mark.parametrize(("name", "template"), pod_templates(), ids=[name for name, _ in pod_templates()])
def test_pods_have_requests_probes_and_an_image_with_a_version(name, template):
    for container in template["spec"]["containers"]:
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]
        ports = {port["name"] for port in container["ports"]}
        for probe in ("livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"]["port"] in ports
        # No registry: the installer says where images come from. No moving tag.
        assert re.fullmatch(r"[a-z-]+:v?\d+\.\d+\.\d+", container["image"])
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in template["spec"]["volumes"]}


def test_the_extender_image_carries_the_version_of_the_project(project_version):
    template = dict(pod_templates())["islander-extender"]
    assert template["spec"]["containers"][0]["image"] == f"islander:{project_version}"


@pytest.fixture
def project_version():
    found = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert found
    return found[1]


def test_the_extender_runs_twice_and_keeps_one_replica_through_a_drain():
    deployment = named("Deployment", "islander-extender")
    assert deployment["spec"]["replicas"] == 2
    budget = named("PodDisruptionBudget", "islander-extender")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert budget["spec"]["minAvailable"] == 1
    for selector in (budget["spec"]["selector"], deployment["spec"]["selector"]):
        assert selector["matchLabels"].items() <= labels.items()
    assert named("Service", "islander-extender")["spec"]["selector"].items() <= labels.items()


def test_the_extender_never_waits_for_itself():
    spec = dict(pod_templates())["islander-extender"]["spec"]
    assert spec["schedulerName"] == "default-scheduler"
    assert not set(DEFAULT_GPU_RESOURCES) & spec["containers"][0]["resources"]["limits"].keys()


def test_the_shipped_configuration_is_accepted_and_serves_tls_where_a_network_is_crossed():
    config = parse_config(named("ConfigMap", "islander-extender")["data"]["config.yaml"], "config.yaml")
    template = dict(pod_templates())["islander-extender"]["spec"]
    container = template["containers"][0]
    assert config.listen.port == container["ports"][0]["containerPort"]
    assert config.tls is not None
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    for file in (config.tls.cert_file, config.tls.key_file):
        assert mounts[str(Path(file).parent)] == "tls"
    assert mounts["/etc/islander"] == "config"
    assert container["args"] == ["--config", "/etc/islander/config.yaml"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["scheme"] == "HTTPS"


def test_a_probe_could_not_show_a_client_certificate_so_none_is_asked_for():
    config = parse_config(named("ConfigMap", "islander-extender")["data"]["config.yaml"], "config.yaml")
    assert config.tls is not None
    assert config.tls.client_ca_file is None


@pytest.mark.parametrize("which", ["second", "cluster"])
def test_a_scheduler_asks_the_extender_over_verified_tls_for_gpu_pods_only(which):
    (extender,) = scheduler_configs()[which]["extenders"]
    port = named("Service", "islander-extender")["spec"]["ports"][0]["port"]
    assert re.fullmatch(rf"https://[A-Za-z_.-]+:{port}", extender["urlPrefix"])
    assert extender["tlsConfig"]["serverName"] == "islander-extender.islander.svc"
    assert extender["tlsConfig"]["caFile"].endswith("/ca.crt")
    assert "insecure" not in extender["tlsConfig"]
    assert [r["name"] for r in extender["managedResources"]] == [*DEFAULT_GPU_RESOURCES, *MIG_RESOURCES]
    # In-tree counting stays on: it is what keeps a node from being overfilled.
    assert all("ignoredByScheduler" not in r for r in extender["managedResources"])
    assert extender["nodeCacheCapable"] is True
    assert scheduler_configs()[which]["percentageOfNodesToScore"] == 100


@pytest.mark.parametrize("which", ["second", "cluster"])
def test_a_scheduler_has_the_entry_that_the_extender_prints_for_its_configuration(which):
    config = parse_config(named("ConfigMap", "islander-extender")["data"]["config.yaml"], "config.yaml")
    printed = YAML(typ="safe", pure=True).load(scheduler_config(config))
    shipped = scheduler_configs()[which]
    # Address and certificate depend on where the extender runs.
    for entry in (printed["extenders"][0], shipped["extenders"][0]):
        del entry["urlPrefix"], entry["tlsConfig"]
    assert {key: shipped[key] for key in printed} == printed


def test_the_second_scheduler_has_a_name_and_a_lease_of_its_own():
    config = scheduler_configs()["second"]
    assert [profile["schedulerName"] for profile in config["profiles"]] == ["islander"]
    lease = config["leaderElection"]
    rules = named("Role", "islander-scheduler")["rules"]
    assert lease["resourceNamespace"] == named("Role", "islander-scheduler")["metadata"]["namespace"]
    own = [rule for rule in rules if rule.get("resourceNames") == [lease["resourceName"]]]
    assert [rule["verbs"] for rule in own] == [["get", "update"]]


def test_the_patch_of_the_static_pod_mounts_the_folder_that_its_flag_names():
    patch = documents(DEPLOY / "scheduler/cluster/kube-scheduler+json.yaml")[0]
    by_path = {operation["path"]: operation["value"] for operation in patch}
    assert all(operation["op"] == "add" for operation in patch)
    folder = by_path["/spec/volumes/-"]["hostPath"]["path"]
    assert by_path["/spec/containers/0/volumeMounts/-"]["mountPath"] == folder
    assert by_path["/spec/containers/0/command/-"] == f"--config={folder}/scheduler.yaml"
    assert scheduler_configs()["cluster"]["extenders"][0]["tlsConfig"]["caFile"].startswith(f"{folder}/")


def test_the_container_image_is_built_from_the_lock_file_and_runs_as_nobody_special():
    text = (DEPLOY / "Containerfile").read_text()
    assert "--require-hashes -r requirements.lock" in text
    assert re.findall(r"^USER (\S+)$", text, re.MULTILINE) == ["65532:65532"]
    image = re.search(r"^ARG PYTHON_IMAGE=(\S+)$", text, re.MULTILINE)
    assert image
    assert "/" not in image[1]
    copied = {name for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE) for name in line.split()}
    assert copied
    assert all((ROOT / name).exists() for name in copied)
