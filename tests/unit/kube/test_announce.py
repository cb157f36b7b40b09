from __future__ import annotations

import threading

from islander.kube.announce import Announcer
from islander.kube.state import Change
from tests.builders import a_pod


def test_a_thread_that_has_news_waits_for_the_news_before_it() -> None:
    announcer = Announcer()
    entered, go_on, told = threading.Event(), threading.Event(), threading.Event()
    heard: list[str] = []

    def listen(_kind: str, key: str, _old: object, _new: object) -> None:
        if key == "first":
            entered.set()
            go_on.wait(10)
        heard.append(key)

    def tell(key: str) -> None:
        announcer.queue("Pod", [Change(key, None, a_pod(key))])
        announcer.tell()

    announcer.add(listen)
    one = threading.Thread(target=tell, args=("first",))
    one.start()
    assert entered.wait(10)
    other = threading.Thread(target=lambda: (tell("second"), told.set()))
    other.start()
    assert not told.wait(0.1)
    go_on.set()
    one.join()
    other.join()
    assert told.is_set()
    assert heard == ["first", "second"]
