"""Paths to routes: fixed parts first, names with slashes, and tags that include others."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.server.http.api_request import ApiRequest
from headrace.server.http.replies import Reply
from headrace.server.http.router import ANYBODY, ApiRoute, RouteTable, has_tag, values_of


async def nothing(call: ApiRequest) -> Reply:
    return Reply()


def route(path: str, method: str = "GET") -> ApiRoute:
    return ApiRoute(method, path, nothing, ANYBODY, "")


TABLE = RouteTable(
    [
        route("/"),
        route("/{file}"),
        route("/api/a"),
        route("/api/a/{x}"),
        route("/api/a/{x}", "PUT"),
        route("/api/a/fixed"),
        route("/api/a/{x}/b/{y}"),
    ]
)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/", "/"),
        ("/index.js", "/{file}"),
        ("/api/a", "/api/a"),
        ("/api/a/", "/api/a"),
        ("/api/a/fixed", "/api/a/fixed"),
        ("/api/a/other", "/api/a/{x}"),
        ("/api/a/fixed/b/2", "/api/a/{x}/b/{y}"),
    ],
)
def test_a_path_has_one_route(path: str, found: str) -> None:
    assert TABLE.find(path)["GET"].path == found


@pytest.mark.parametrize("path", ["/api", "/api/b", "/api/a/1/b", "/api/a/1/b/2/3"])
def test_other_paths_have_none(path: str) -> None:
    assert "GET" not in TABLE.find(path) or TABLE.find(path)["GET"].path == "/{file}"


def test_methods_of_a_path_are_distinguished() -> None:
    assert set(TABLE.find("/api/a/1")) == {"GET", "PUT"}


@given(st.text(min_size=1), st.text(min_size=1))
def test_names_survive_the_way_through_a_path(x: str, y: str) -> None:
    if "\ud800" <= max(x + y) <= "\udfff":
        return
    path = f"/api/a/{quote(x, safe='')}/b/{quote(y, safe='')}"
    found = TABLE.find(path).get("GET")
    assert found is not None and found.path == "/api/a/{x}/b/{y}"
    assert values_of(found, path) == {"x": x, "y": y}


def test_two_routes_for_one_path_are_a_mistake() -> None:
    with pytest.raises(AssertionError, match="two routes"):
        RouteTable([route("/a/{x}"), route("/a/{y}")])


@pytest.mark.parametrize(
    ("tags", "wanted", "has"),
    [
        ({"administrator"}, "policymaker", True),
        ({"monitoring"}, "management", True),
        ({"monitoring"}, "policymaker", False),
        ({"policymaker"}, "monitoring", False),
        ({"made-up"}, "management", False),
        (set(), "management", False),
        ({"policymaker", "monitoring"}, "monitoring", True),
    ],
)
def test_tags_include_others(tags: set[str], wanted: str, has: bool) -> None:
    assert has_tag(tags, wanted) is has
