"""mig-parted's files: what is written is accepted, and what its schema forbids is found."""

import pytest
from ruamel.yaml import YAML

from planner.mig.parted import config_name, node_config, parted_text, read_parted

SEVEN = (("1g.10gb", 7),)
H100 = ("0x233010DE",)
A100 = ("0x20B210DE", "0x20B510DE")


def a_file(*entries: str, name: str = "some", version: str = "v1") -> str:
    listed = "".join(f"    - {entry}\n" for entry in entries)
    return f"version: {version}\nmig-configs:\n  {name}:\n{listed}"


def errors_of(text: str) -> list[str]:
    return read_parted(text)[1]


GOOD = "{devices: [0], mig-enabled: true, mig-devices: {1g.10gb: 7}}"


@pytest.mark.parametrize(
    "entries",
    [
        (GOOD,),
        ("{devices: all, mig-enabled: false}",),
        ("{devices: all, mig-enabled: false, mig-devices: {}}",),
        ("{devices: [0], mig-enabled: true, mig-devices: {}}",),
        (GOOD, "{devices: [1, 2], mig-enabled: false}"),
        ("{device-filter: '0x233010DE', devices: all, mig-enabled: true, mig-devices: {1g.10gb+me: 1}}",),
        (
            "{device-filter: ['0x233010DE'], devices: all, mig-enabled: false}",
            "{device-filter: ['0x20B210DE'], devices: all, mig-enabled: false}",
        ),
        ("{devices: [0], mig-enabled: true, mig-devices: {1g.10gb: 0, 3g.40gb: 1}}",),
    ],
)
def test_a_file_that_mig_parted_takes_has_no_error(entries):
    assert errors_of(a_file(*entries)) == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (a_file(GOOD, version="v1beta1"), "version: must be v1"),
        ("mig-configs: {a: []}", "version: must be v1"),
        ("version: v1\n", "mig-configs: must map"),
        ("version: v1\nmig-configs: {}\n", "mig-configs: must map"),
        (a_file(GOOD) + "extra: 1\n", "'extra': unknown key"),
        ("- a", "is no mapping"),
        ("version: [", "is not YAML"),
        ("version: v1\nversion: v1\n", "is not YAML"),
        (a_file(GOOD, name="'not a label'"), "the name is no label value"),
        (a_file(GOOD, name="x" * 64), "the name is no label value"),
        ("version: v1\nmig-configs: {some: []}\n", "must be a list of entries"),
        ("version: v1\nmig-configs: {some: {devices: all}}\n", "must be a list of entries"),
        (a_file("7"), "[0]: is no mapping"),
        # G40: `devices: 7` instead of a list.
        (a_file("{devices: 7, mig-enabled: false}"), ".devices: must be 'all' or a list"),
        (a_file("{devices: [], mig-enabled: false}"), ".devices: must be 'all' or a list"),
        (a_file("{devices: [-1], mig-enabled: false}"), ".devices: must be 'all' or a list"),
        (a_file("{devices: [1, 1], mig-enabled: false}"), ".devices: must be 'all' or a list"),
        (a_file("{devices: ['0'], mig-enabled: false}"), ".devices: must be 'all' or a list"),
        (a_file("{devices: every, mig-enabled: false}"), ".devices: must be 'all' or a list"),
        (a_file("{mig-enabled: false}"), ".devices: is missing"),
        (a_file("{devices: [0]}"), ".mig-enabled: is missing"),
        (a_file("{devices: [0], mig-enabled: 'yes'}"), ".mig-enabled: must be true or false"),
        (a_file("{devices: [0], mig-enabled: true}"), ".mig-devices: is missing"),
        (a_file("{devices: [0], mig-enabled: true, mig-devices: }"), ".mig-devices: must map"),
        (a_file("{devices: [0], mig-enabled: true, mig-devices: [1g.10gb]}"), ".mig-devices: must map"),
        (a_file("{devices: [0], mig-enabled: false, mig-devices: {1g.10gb: 1}}"), ".mig-devices: must be empty"),
        (a_file("{devices: [0], mig-enabled: true, mig-devices: {1g.10gb: -1}}"), "must be a number from 0"),
        (a_file("{devices: [0], mig-enabled: true, mig-devices: {1g.10gb: true}}"), "must be a number from 0"),
        (a_file("{devices: [0], mig-enabled: true, mig-devices: {1g.10gb: 0}}"), "not all numbers may be 0"),
        (a_file("{devices: [0], mig-enabled: true, mig-devices: {large: 1}}"), "'large' is no profile"),
        (a_file("{devices: [0], mig-enabled: false, mig-mode: x}"), ".mig-mode: unknown key"),
        (a_file("{device-filter: 0x233010DE, devices: all, mig-enabled: false}"), ".device-filter: must be"),
        (a_file("{device-filter: [H100], devices: all, mig-enabled: false}"), ".device-filter: must be"),
        (a_file("{device-filter: [], devices: all, mig-enabled: false}"), ".device-filter: must be"),
        (a_file(GOOD, "{devices: all, mig-enabled: false}"), "[1].devices: GPUs of entry [0] again"),
        (a_file(GOOD, "{devices: [1, 0], mig-enabled: false}"), "[1].devices: GPUs of entry [0] again"),
        (
            a_file(
                "{device-filter: '0x233010DE', devices: all, mig-enabled: false}",
                "{device-filter: ['0x20B210DE', '0x233010DE'], devices: [0], mig-enabled: false}",
            ),
            "[1].devices: GPUs of entry [0] again",
        ),
    ],
)
def test_what_mig_parted_would_refuse_or_fight_over_is_found(text, error):
    assert any(error in found for found in errors_of(text)), errors_of(text)


def test_a_configuration_names_every_index_once_and_those_that_are_cut_alike_together():
    config = node_config([(0, (), H100), (1, SEVEN, H100), (2, (), H100), (3, SEVEN, H100)])
    assert [(e.devices, e.enabled) for e in config] == [((0, 2), False), ((1, 3), True)]


def test_a_filter_stands_only_where_products_differ():
    same = node_config([(0, SEVEN, H100), (1, SEVEN, H100)])
    mixed = node_config([(0, SEVEN, H100), (1, SEVEN, A100)])
    assert [e.device_filter for e in same] == [()]
    assert [(e.devices, e.device_filter) for e in mixed] == [((0,), H100), ((1,), A100)]
    assert errors_of(parted_text({"n": mixed})) == []


def test_a_node_that_is_cut_alike_has_a_readable_name():
    assert config_name(node_config([(0, SEVEN, H100), (1, SEVEN, H100)])) == "islander-all-7x1g.10gb"
    assert config_name(node_config([(0, (), H100)])) == "islander-all-disabled"
    me = (("1g.10gb+me", 1),)
    assert config_name(node_config([(0, me, H100)])) == "islander-all-1x1g.10gb.me"


def test_different_layouts_have_different_names_and_the_same_one_the_same():
    one = node_config([(0, SEVEN, H100), (1, (), H100)])
    other = node_config([(0, (), H100), (1, SEVEN, H100)])
    assert config_name(one) != config_name(other)
    assert config_name(one) == config_name(node_config([(1, (), H100), (0, SEVEN, H100)]))


def test_a_file_holds_each_configuration_once_and_tells_its_nodes():
    config = node_config([(0, SEVEN, H100), (1, (), H100)])
    text = parted_text({"b": config, "a": config})
    configs, errors = read_parted(text)
    assert errors == []
    assert list(configs) == [config_name(config)]
    assert "# for a, b" in text
    assert YAML(typ="safe").load(text)["mig-configs"][config_name(config)] == [
        {"devices": [0], "mig-enabled": True, "mig-devices": {"1g.10gb": 7}},
        {"devices": [1], "mig-enabled": False},
    ]


def test_a_filter_is_read_back_as_text():
    config = node_config([(0, SEVEN, H100), (1, SEVEN, A100)])
    (entries,) = YAML(typ="safe").load(parted_text({"n": config}))["mig-configs"].values()
    assert entries[0]["device-filter"] == ["0x233010DE"]
