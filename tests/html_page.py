"""A page as a test reads it: tags, attributes, words, tables; and texts that try to break out of it."""

from __future__ import annotations

import re
from collections.abc import Collection
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

HOSTILE = "</title></svg><script>alert('x')</script>\"'><img src=http://evil.example/x onerror=alert(1)>&amp;{{ 7*7 }}"
VOID = {"meta", "link", "br", "img"}


class Page(HTMLParser):
    """Tags, attributes and text of a page; fails on tags that are not closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.words: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self._open: list[str] = []
        self._table: list[list[str]] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag == "table":
            self._table = self.tables.setdefault(dict(attrs).get("id") or f"table {len(self.tables)}", [])
        elif tag == "tr":
            self._table.append([])
        elif tag in ("td", "th"):
            self._table[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"</{tag}> closes another tag"

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        if "table" in self._open and {"td", "th"} & set(self._open):
            cell = f"{self._table[-1][-1]} {data}"
            self._table[-1][-1] = " ".join(cell.split())

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def rows(self, table: str) -> list[list[str]]:
        """The cells of a table without its head; an empty list when the page has no such table."""
        return self.tables.get(table, [])[1:]

    def titles(self, kind: str) -> list[str]:
        """What hovering shows over the boxes of a kind."""
        return re.findall(rf'<g class="{kind}"><title>(.*?)</title>', self.html)


def check_structure(page: Page) -> None:
    """Fail when a page cannot be read aloud: headings, heads of tables, drawings, ids, language."""
    levels = [int(tag[1]) for tag in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert ("html", "lang", "en") in page.attributes
    heads = page.tags.count("th")
    assert heads == sum(1 for tag, name, _ in page.attributes if (tag, name) == ("th", "scope"))
    drawings = page.tags.count("svg")
    assert drawings == sum(1 for entry in page.attributes if entry == ("svg", "role", "img"))
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    for _, name, value in page.attributes:
        if name in ("aria-labelledby", "aria-describedby"):
            assert value in ids


def check_asks_for_nothing(page: Page) -> None:
    """Fail when anything in a page would be fetched."""
    assert not {"script", "iframe", "img", "object", "embed"} & set(page.tags)
    asking = ("href", "src", "srcset", "action", "data")
    assert [value for _, name, value in page.attributes if name in asking] == ["data:,"]
    assert not re.search(r"https?://|@import|url\((?!#)", page.html)


def check_nothing_broke_out(usual: Page, found: Page) -> None:
    """Fail when hostile texts made tags or attributes that the usual page does not have."""
    assert {"script", "img"}.isdisjoint(found.tags)
    known = {(tag, name) for tag, name, _ in usual.attributes} | {("tr", "class"), ("td", "class"), ("details", "open")}
    assert {(tag, name) for tag, name, _ in found.attributes} <= known
    assert "alert('x')" in found.text
    assert "{{ 7*7 }}" in found.text


def hostile(value: Any, keep: Collection[str] = ()) -> Any:
    """The same JSON with every text a hostile one, but for those under the keys to keep."""
    if isinstance(value, str):
        return HOSTILE
    if isinstance(value, list):
        return [hostile(part, keep) for part in value]
    if isinstance(value, dict):
        return {key: part if key in keep else hostile(part, keep) for key, part in value.items()}
    return value


def hostile_keys(value: dict[str, Any]) -> dict[str, Any]:
    """The same values under one key each that is hostile."""
    return {f"{HOSTILE}{number}": part for number, part in enumerate(value.values())}
