"""The story is told by the real extender; these tests keep its claims true."""

import io

import pytest

from islander.policy.explain import explain_pod
from planner.cli import main
from planner.demo import bundled
from planner.plan_file import read_plan


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the story leaves its files."""
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def story(folder):
    """What `islander demo` prints, line by line."""
    with pytest.MonkeyPatch.context() as patch:
        out = io.StringIO()
        patch.setattr("sys.stdout", out)
        assert main(["demo", "--output-dir", str(folder)]) == 0
    return out.getvalue().splitlines()


def test_the_first_cluster_is_the_one_of_case_g32():
    scene = bundled("four-nodes.yaml")
    held = {
        node.name: sorted(pod.spec.requests.count("nvidia.com/gpu") for pod in scene.snapshot.pods_by_node[node.name])
        for node in scene.snapshot.nodes
    }
    assert held == {"gpu-a": [2, 4], "gpu-b": [1, 1, 4], "gpu-c": [3, 4], "gpu-d": [1, 2, 4]}
    assert [explain_pod(scene.snapshot, pod).need.gpus for pod, _ in scene.waiting] == [4]


def test_no_bundled_cluster_has_anything_to_warn_of():
    for name in ("four-nodes.yaml", "mixed-fleet.yaml"):
        assert bundled(name).snapshot.warnings == (), name


def test_six_gpus_are_free_and_no_replica_of_four_fits(story):
    assert any("free 6  usable free 6  largest free island 2" in line for line in story)
    assert ["4", "0", "6"] in [line.split() for line in story]


def test_the_extender_refuses_every_node_with_a_reason(story):
    assert story.count('    "gpu-a": "not enough free GPUs on one node",') == 1
    assert '  "NodeNames": [],' in story


def test_a_replica_that_requires_an_island_is_refused_where_the_pairs_are_broken(story):
    (line,) = [line for line in story if line.startswith("With islander.dev/topology: required")]
    assert line.endswith("is refused there, pairs-3: free GPUs are not joined by NVLink.")


def test_g32_one_move_is_named(story):
    (line,) = [line for line in story if line.startswith("Closest is ")]
    assert line.startswith("Closest is gpu-a: it would do if search/embed-5d4c7b9f8-q8r2t (2 GPUs) ran elsewhere")
    assert line.endswith("gpu-b has room for it now.")


def test_each_replica_goes_where_it_breaks_least(story):
    goes = [line for line in story if " goes to " in line]
    # Four GPUs fill the half of a board; two take the last whole pair of a node that is broken already; one takes the
    # GPU that is of no use to anybody else.
    assert [line.rsplit(" ", 1)[1] for line in goes] == ["hgx-2", "pairs-2", "hgx-3"]


def test_what_the_extender_scores_highest_is_what_explain_ranks_first(story):
    goes = [i for i, line in enumerate(story) if " goes to " in line]
    for i in goes:
        best = story[i].rsplit(" ", 1)[1]
        assert story[i + 1].startswith(f"  {best} comes before ")


def test_the_move_that_chapter_1_names_is_the_one_that_is_planned(story, folder):
    assert "1 move makes room for 1 of 1 pending replica." in story
    plan = read_plan(str(folder / "plan.json"))
    assert [(s.pod, s.from_node, s.to_node) for s in plan.steps] == [
        ("search/embed-5d4c7b9f8-q8r2t", "gpu-a", "gpu-b"),
    ]
    assert [(a.pod, a.node) for a in plan.admits] == [("chat/llama-70b-7c9f8d5b6-r5d8c", "gpu-a")]


def test_the_story_ends_with_a_plan_that_holds_and_its_report(story, folder, capsys):
    assert "Replayed without the solver: it holds." in story
    assert f"For the review: {folder / 'report.html'}" in story
    assert (folder / "report.html").read_text().startswith("<!doctype html>")
    assert main(["check", str(folder / "plan.json"), "--snapshot", str(folder / "cluster.json")]) == 0


def test_the_story_fits_a_usual_terminal(story, folder):
    assert max(len(line.replace(str(folder), "")) for line in story) <= 120
    assert len(story) <= 120
