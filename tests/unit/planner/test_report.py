"""The review page: its numbers, its structure, and that nothing in it can break out."""

import json
import re

import pytest

from islander.policy.settings import PolicySettings
from planner.plan import Immovable, Unadmitted
from planner.render.report.by_hand import by_hand
from planner.render.report.page import report_html
from planner.render.report.palette import OKABE_ITO
from planner.render.report.waves import HEIGHT, MOST_BOXES, WIDTH, wave_graph
from tests.builders import a_node, a_pod, a_snapshot
from tests.html_page import HOSTILE, Page, check_structure
from tests.plan_builders import a_plan, a_step, an_admission, move_story


def page(plan=None, snapshot=None):
    return Page(report_html(plan or a_plan(), snapshot or move_story(), PolicySettings()))


def test_the_page_holds_the_plans_numbers():
    html = report_html(a_plan(), move_story(), PolicySettings())
    for name, value in (
        ("cost-steps", "1"),
        ("cost-interrupted", "1"),
        ("cost-gpu-minutes", "10"),
        ("admitted", "1 of 1"),
    ):
        assert f'<dd id="{name}">{value}</dd>' in html


def test_every_step_admission_and_reason_is_there():
    plan = a_plan(unadmitted=[Unadmitted("x/waits", "NO_ROOM_EVEN_IF_REPACKED", "one more node of h100-sxm would do")])
    text = page(plan).text
    for words in ("search/embed-1", "chat/llama-2", "after wave 1", "requests longer than 30 s may be cut off"):
        assert words in text
    assert "one more node of h100-sxm would do" in text
    assert "BARE_POD" in text
    assert "search/embed (1 allowed now)" in text


def test_nothing_is_fetched_from_outside():
    found = page()
    assert not {"script", "iframe", "img", "object", "embed"} & set(found.tags)
    addresses = [value for _, name, value in found.attributes if name in ("href", "src", "srcset", "action", "data")]
    assert addresses == ["data:,"]
    html = report_html(a_plan(), move_story(), PolicySettings())
    assert "http://" not in html
    assert "https://" not in html
    assert "@import" not in html
    assert re.findall(r"url\(([^)]*)\)", html) == ["#tip"]


def test_a_hostile_name_is_text_and_nothing_else():
    named = a_snapshot(
        a_node(HOSTILE),
        a_node("b"),
        a_pod("embed-1", gpus=2, node=HOSTILE, namespace=HOSTILE),
    )
    plan = a_plan(
        steps=[a_step(pod=f"{HOSTILE}/embed-1", from_node=HOSTILE, pdb=HOSTILE, workload=HOSTILE, risks=[HOSTILE])],
        admits=[an_admission(pod=HOSTILE, node=HOSTILE)],
        unadmitted=[Unadmitted(HOSTILE, HOSTILE, HOSTILE + " `" + HOSTILE + "`")],
        immovable=[Immovable(HOSTILE, HOSTILE)],
        goal=HOSTILE,
        warnings=[HOSTILE],
    )
    usual, found = page(), page(plan, named)
    assert "script" not in found.tags
    assert "img" not in found.tags
    assert not [name for _, name, _ in found.attributes if name.startswith("on")]
    assert {name for _, name, _ in found.attributes} <= {name for _, name, _ in usual.attributes} | {"class"}
    assert "alert('x')" in found.text
    assert "{{ 7*7 }}" in found.text


def test_structure_can_be_read_aloud():
    check_structure(page())


def test_hovering_a_cell_shows_the_replica():
    assert "search/embed-1, 2 GPUs, moves away" in page().text
    assert "chat/llama-2, 4 GPUs, starts here" in page().text


def test_a_drawing_says_in_words_what_it_shows():
    html = report_html(a_plan(), move_story(), PolicySettings())
    assert re.search(r"<title id=\"before-1\">a before: .*search/embed-1 2 GPUs \(moves away\).*2 free</title>", html)


def test_the_page_says_whether_the_plan_holds():
    assert "The plan holds. It was replayed step by step on the snapshot it was made for." in page().text
    emptied = a_snapshot(a_node("a"), a_node("b"))
    text = page(a_plan(), emptied).text
    assert "The plan does not hold" in text
    assert "STALE_POD" in text


def test_without_a_snapshot_the_page_says_what_is_missing():
    text = Page(report_html(a_plan(), None, PolicySettings())).text
    assert "Not judged here." in text
    assert "Not drawn: the report was made without a snapshot." in text
    assert "search/embed-1" in text


def test_a_node_that_the_snapshot_lacks_is_named():
    assert "Not in the snapshot, so not drawn: b." in page(a_plan(), a_snapshot(a_node("a"))).text


@pytest.mark.parametrize("outcome", ["nothing-to-do", "infeasible", "no-answer-in-time"])
def test_a_plan_without_steps_is_a_page_too(outcome):
    plan = a_plan(steps=[], admits=[], immovable=[], outcome=outcome)
    found = page(plan)
    assert "svg" not in found.tags
    assert "Carrying it out" not in found.text


def test_a_step_points_at_the_steps_that_need_it():
    steps = [a_step(1, pod="x/1"), a_step(2, pod="x/2", depends_on=["s1"])]
    graph = wave_graph(a_plan(steps=steps, admits=[]))
    assert [head for _, head in graph.heads] == ["Wave 1", "Wave 2"]
    first, second = graph.boxes
    (arrow,) = graph.arrows
    assert arrow.path.startswith(f"M{first.x + WIDTH} {first.y + HEIGHT // 2} ")
    assert arrow.path.endswith(f"{second.x - 6} {second.y + HEIGHT // 2}")


def test_no_two_boxes_of_the_graph_lie_on_each_other():
    steps = [a_step(n, wave=1 + n % 3, pod=f"x/{n}") for n in range(20)]
    boxes = wave_graph(a_plan(steps=steps)).boxes
    places = {(box.x, box.y) for box in boxes}
    assert len(places) == len(boxes)


def test_a_large_plan_is_drawn_wave_by_wave():
    steps = [a_step(n, wave=1 + n % 2, pod=f"x/{n}") for n in range(MOST_BOXES + 2)]
    graph = wave_graph(a_plan(steps=steps))
    assert not graph.whole
    assert [box.lines[0] for box in graph.boxes] == ["21 moves", "21 moves", "1 replica"]


def _contrast(one, other):
    def light(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_letters_are_readable_on_every_colour():
    for colour in OKABE_ITO:
        assert _contrast(colour.fill, colour.ink) >= 4.5


def test_an_eviction_names_the_pod_by_its_uid_so_that_another_one_is_not_evicted():
    (wave,) = by_hand(a_plan())
    (line,) = [line for line in wave.commands if "eviction" in line]
    body = json.loads(re.fullmatch(r"echo '(.*)' \| kubectl create --raw (\S+) -f -", line)[1])
    assert body == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": "search", "name": "embed-1"},
        "deleteOptions": {"preconditions": {"uid": "uid-search-embed-1"}},
    }
    assert line.endswith(" /api/v1/namespaces/search/pods/embed-1/eviction -f -")


def test_the_source_is_cordoned_unless_it_is_needed_or_cordoned_already():
    plain = by_hand(a_plan())[0].commands
    assert plain[0] == "kubectl cordon a"
    assert plain[-1] == "kubectl uncordon a"
    assert not any("cordon" in line for line in by_hand(a_plan(), {"a"})[0].commands)
    swapped = a_plan(steps=[a_step(1), a_step(1, id="s2", pod="x/y", from_node="b", to_node="a")])
    assert not any("cordon" in line for line in by_hand(swapped)[0].commands)


def test_a_hostile_name_stays_one_word_of_the_shell():
    bad = "x'; rm -rf / #"
    lines = by_hand(a_plan(steps=[a_step(pod=f"{bad}/{bad}", from_node=bad, workload=f"{bad}/Deployment/{bad}")]))
    for line in lines[0].commands:
        assert "; rm" not in re.sub(r"'(?:[^']|'\"'\"')*'", "", line)


def test_a_move_by_surge_starts_the_second_replica_first():
    step = a_step(method="surge", workload="search/Deployment/embed")
    commands = list(by_hand(a_plan(steps=[step]))[0].commands)
    more = commands.index("kubectl scale -n search deployment/embed --replicas=2")
    less = commands.index("kubectl scale -n search deployment/embed --replicas=1")
    assert more < less
    assert any("pod-deletion-cost" in line for line in commands[more:less])
    assert not any("eviction" in line for line in commands)
