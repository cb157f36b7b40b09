from __future__ import annotations

from pathlib import Path

import pytest

from extender.config import ConfigError, ExtenderConfig, duration_seconds, load_config, parse_config
from islander.policy.settings import Shape, Topology

EVERY_KEY = """
apiVersion: islander.dev/v1
kind: ExtenderConfig
listen: {address: 127.0.0.2, port: 9000, threads: 4, keepAlive: 3m, requestTimeout: 500ms, maxBodyBytes: 2048}
tls: {certFile: tls.crt, keyFile: tls.key, clientCAFile: ca.crt}
kubeconfig: some/kubeconfig
topologyDefault: required
demandMix: [{gpus: 4, weight: 2}, {gpus: 8, weight: 0.5}]
softHold: 1500ms
resourceNames: [nvidia.com/gpu]
reservations: {namespace: gpu, name: plans}
bind: true
log: {format: json, level: debug}
"""


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "c.yaml")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_key_of_the_contract_is_read() -> None:
    config = parse_config(EVERY_KEY, "c.yaml")
    assert (config.listen.address, config.listen.port, config.listen.threads) == ("127.0.0.2", 9000, 4)
    assert (config.listen.keep_alive, config.listen.request_timeout, config.listen.max_body_bytes) == (180.0, 0.5, 2048)
    assert config.tls is not None
    assert (config.tls.cert_file, config.tls.key_file, config.tls.client_ca_file) == ("tls.crt", "tls.key", "ca.crt")
    assert (config.kubeconfig, config.bind, config.soft_hold) == ("some/kubeconfig", True, 1.5)
    assert (config.reservations.namespace, config.reservations.name) == ("gpu", "plans")
    assert (config.log.format, config.log.level) == ("json", "debug")
    settings = config.policy_settings()
    assert settings.topology_default is Topology.REQUIRED
    assert settings.gpu_resources == ("nvidia.com/gpu",)
    assert settings.mix is not None
    assert dict(settings.mix.weights) == {Shape(4, island=True): 2.0, Shape(8, island=True): 0.5}


@pytest.mark.parametrize("text", ["", "---\n", "kind: ExtenderConfig", "listen:\nlog:\ntls:\n"])
def test_what_is_not_said_is_the_default(text: str) -> None:
    config = parse_config(text, "c.yaml")
    assert config == ExtenderConfig()
    assert (config.listen.address, config.listen.port) == ("127.0.0.1", 8880)
    assert config.listen.keep_alive > 95
    assert (config.soft_hold, config.bind, config.topology_default) == (2.0, False, "preferred")
    assert config.policy_settings().mix is None


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("listne: {}", "listne: unknown key"),
        ("listen: {prt: 1}", "listen.prt: unknown key"),
        ("listen: {max_body_bytes: 4096}", "listen.max_body_bytes: unknown key"),
        ("listen: {port: 99999}", "listen.port"),
        ("listen: {port: '80'}", "listen.port"),
        ("listen: {keepAlive: 30s}", "listen.keepAlive"),
        ("softHold: 3", "softHold"),
        ("softHold: 1x", "softHold"),
        ("softHold: 5m", "softHold"),
        ("softHold: true", "softHold"),
        ("demandMix: sometimes", "demandMix"),
        ("demandMix: []", "demandMix"),
        ("demandMix: [{gpus: 2, weight: 1}, {gpus: 0, weight: 1}]", "demandMix[1].gpus"),
        ("demandMix: [{gpus: 2, weight: .inf}]", "demandMix[0].weight"),
        ("demandMix: [{gpus: 2, weight: 1, share: 2}]", "demandMix[0].share: unknown key"),
        ("resourceNames: [gpu]", "resourceNames[0]"),
        ("resourceNames: []", "resourceNames"),
        ("resourceNames: [nvidia.com/gpu, nvidia.com/gpu]", "resourceNames: nvidia.com/gpu is listed twice"),
        ("resourceNames: [deviceclass.resource.kubernetes.io/gpu]", "resourceNames[0]"),
        ("tls: {certFile: a}", "tls.keyFile: is missing"),
        ("bind: yes", "bind"),
        ("log: {level: INFO}", "log.level"),
        ("log: loud", "log"),
        ("topologyDefault: always", "topologyDefault"),
        ("kind: PlannerConfig", "kind"),
        ("apiVersion: islander.dev/v2", "apiVersion"),
        ("snapshotFile: a\nkubeconfig: b", "snapshotFile and kubeconfig"),
        ("snapshotFile: a\nbind: true", "bind"),
        ("1: 2", "[1]"),
        ("? [a]\n: 2", "a"),
        ("- a", "mapping"),
        ("a: 1\na: 2", "line 2"),
        ("a: [", "line 1"),
        ("a: \x00", "YAML"),
        ("[" * 700, "YAML"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_file_and_the_key(text: str, names: str) -> None:
    message = refusal(text)
    assert message.startswith("c.yaml:")
    assert names in message


@pytest.mark.parametrize(
    ("text", "seconds"), [("2s", 2.0), ("500ms", 0.5), ("1m30s", 90.0), ("1.5h", 5400.0), ("0", 0.0), (0, 0.0)]
)
def test_durations_are_written_as_in_go(text: object, seconds: float) -> None:
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize("value", ["", "s", "2", "-2s", "2 s", 2, 2.5, None, False, ["2s"]])
def test_other_durations_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="duration"):
        duration_seconds(value)


def test_the_command_line_outweighs_the_file() -> None:
    overrides: dict[tuple[str, ...], object] = {("listen", "port"): 1, ("log", "level"): "error"}
    config = parse_config("listen: {port: 2, threads: 3}\nlog:\n", "c.yaml", overrides)
    assert (config.listen.port, config.listen.threads, config.log.level) == (1, 3, "error")


@pytest.mark.parametrize("text", ["listen: 5", "listen: [1]", "listen: x"])
def test_a_flag_does_not_hide_a_bad_section_of_the_file(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^c\.yaml: listen: should be a mapping of keys$"):
        parse_config(text, "c.yaml", {("listen", "port"): 1})


def test_a_bad_value_of_the_command_line_is_named_too() -> None:
    with pytest.raises(ConfigError, match=r"listen\.port"):
        parse_config("", "command line", {("listen", "port"): -1})


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml: cannot be read"):
        load_config(tmp_path / "absent.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"log: {level: \xff}")
    with pytest.raises(ConfigError, match=r"latin\.yaml: cannot be read: not UTF-8"):
        load_config(tmp_path / "latin.yaml")


def test_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("bind: true")
    assert load_config(tmp_path / "c.yaml").bind
