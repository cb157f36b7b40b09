from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from extender.wire import BadRequest, ExtenderArgs, Filtered, filter_answer, parse_extender_args, priority_answer
from islander.policy.reasons import REASONS, Code
from tests.builders import a_pod
from tests.unit.extender.harness import asking

NAMES = st.lists(st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True), unique=True, max_size=8)


def test_the_sentences_need_no_escape_in_json() -> None:
    """They are woven into answers as they are."""
    for reason in REASONS.values():
        assert json.dumps(reason.sentence) == f'"{reason.sentence}"'


@given(NAMES, st.data())
def test_woven_answers_say_what_encoded_ones_say(names: list[str], data: st.DataObject) -> None:
    codes = {name: data.draw(st.none() | st.sampled_from(list(Code))) for name in names}
    scores = [data.draw(st.integers(0, 10)) for _ in names]
    refused: dict[Code, list[str]] = {}
    for name, code in codes.items():
        if code is not None:
            refused.setdefault(code, []).append(name)
    outcome = Filtered([code is None for code in codes.values()], refused)
    woven = ExtenderArgs(a_pod(), names, None, plain=True)
    encoded = replace(woven, plain=False)
    assert json.loads(filter_answer(woven, outcome)) == json.loads(filter_answer(encoded, outcome))
    assert json.loads(priority_answer(woven, scores)) == json.loads(priority_answer(encoded, scores))
    assert json.loads(priority_answer(woven, scores)) == [
        {"Host": name, "Score": score} for name, score in zip(names, scores, strict=True)
    ]


@given(st.lists(st.text(), max_size=5), st.booleans())
def test_any_name_is_told_apart_from_plain_ones(names: list[str], ascii_only: bool) -> None:
    body = json.dumps({"Pod": asking(), "NodeNames": names}, ensure_ascii=ascii_only)
    try:
        data = body.encode()
    except UnicodeEncodeError:
        return
    args = parse_extender_args(data)
    if isinstance(args, BadRequest):
        assert any("\ud800" <= character <= "\udfff" for name in names for character in name)
        return
    assert args.names == names
    answer = json.loads(priority_answer(args, [1] * len(names)))
    assert [entry["Host"] for entry in answer] == names
    outcome = Filtered([False] * len(names), {Code.UNKNOWN_NODE: names})
    assert json.loads(filter_answer(args, outcome))["FailedNodes"].keys() == set(names)
