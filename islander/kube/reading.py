"""Lists in pages and events in lines, from bytes to what was seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from islander.kube.errors import ApiGone, ApiUnreadable, error_from_event
from islander.kube.kinds import WatchedKind, see
from islander.kube.state import Event, EventType, KindState, Seen
from islander.kube.transport import Transport

PAGE_LIMIT = 500
# How often a paged list is begun again because its continue token ran out, before one answer with everything is asked.
_PAGED_ATTEMPTS = 2


@dataclass(frozen=True, slots=True)
class Listing:
    """A complete list and the resource version it stands for."""

    items: list[Seen]
    resource_version: str


class _ListMeta(msgspec.Struct, frozen=True, rename={"resource_version": "resourceVersion", "next_page": "continue"}):
    resource_version: str = ""
    next_page: str = ""


class _Page(msgspec.Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] | None = None


class _EventLine(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


_PAGE = msgspec.json.Decoder(_Page)
_EVENT = msgspec.json.Decoder(_EventLine)


def read_list(
    transport: Transport,
    kind: WatchedKind,
    state: KindState,
    *,
    limit: int = PAGE_LIMIT,
    stopped: Callable[[], bool] = lambda: False,
) -> Listing | None:
    """Return all objects of a kind, None when `stopped` says so between two pages.

    Pages are read from the newest state. A continue token lasts some minutes; when it runs out the list begins again,
    and at last everything is asked in one answer, which the server gives from its cache but never older than the first
    page was.

    Raises
    ------
    ApiError
        No complete list was read.
    """
    newest = ""
    chosen = {"fieldSelector": kind.field_selector} if kind.field_selector else {}
    for _ in range(_PAGED_ATTEMPTS):
        items: list[Seen] = []
        first = token = ""
        try:
            while not stopped():
                page = _page(transport, kind, chosen | {"limit": str(limit)} | ({"continue": token} if token else {}))
                first = first or page.metadata.resource_version
                items += [see(kind, raw, state) for raw in page.items or ()]
                token = page.metadata.next_page
                if not token:
                    return Listing(items, first)
        except ApiGone:
            newest = first
            continue
        return None
    not_older = {"resourceVersion": newest, "resourceVersionMatch": "NotOlderThan"} if newest else {}
    whole = _page(transport, kind, chosen | not_older)
    return Listing([see(kind, raw, state) for raw in whole.items or ()], whole.metadata.resource_version)


def read_event(kind: WatchedKind, line: bytes, state: KindState) -> Event | None:
    """Return the event of one line of a watch, None for a type that is not known.

    Raises
    ------
    ApiError
        The line is an ERROR event (`ApiGone` for 410), or no event at all (`ApiUnreadable`).
    """
    try:
        event = _EVENT.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ApiUnreadable(f"watch of {kind.path}: a line is no event") from error
    if event.type == "ERROR":
        raise error_from_event(f"watch of {kind.path}", event.object)
    if event.type not in EventType.__members__:
        return None
    return Event(EventType(event.type), see(kind, event.object, state))


def _page(transport: Transport, kind: WatchedKind, params: dict[str, str]) -> _Page:
    body = transport.get(kind.path, params)
    try:
        page = _PAGE.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ApiUnreadable(f"GET {kind.path}: the answer is not a list") from error
    if not page.metadata.resource_version:
        # Any JSON object would pass for an empty list, and an empty list for an empty cluster.
        raise ApiUnreadable(f"GET {kind.path}: the answer is a list without a resource version")
    return page
