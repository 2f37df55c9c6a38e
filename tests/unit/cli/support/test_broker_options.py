"""Where the broker is: the URL, the environment, the password that nobody else should see."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.support.broker_options import find_address
from headrace.client.settings import Settings
from headrace.errors import ConfigError


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        (None, Settings()),
        ("headrace://", Settings()),
        ("headrace://host", Settings("host")),
        ("headrace://host:0", Settings("host", 0)),
        ("headrace://ann@host/", Settings("host", 9090, "ann")),
        ("headrace://ann:pw@host:1/shop", Settings("host", 1, "ann", "pw", "shop")),
        ("headrace://host/%2F", Settings("host")),
        ("headrace://host/%2Fa", Settings("host", vhost="/a")),
        ("headrace://[::1]:9", Settings("::1", 9)),
        ("headrace://ann:@host", Settings("host", 9090, "ann", "")),
    ],
)
def test_urls(url: str | None, wanted: Settings) -> None:
    assert find_address(url, None, {}) == wanted


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(TEXT, TEXT, TEXT)
def test_any_name_and_password_can_be_written(user: str, password: str, vhost: str) -> None:
    parts = [quote(one, safe="") for one in (user, password, vhost)]
    found = find_address("headrace://{}:{}@h/{}".format(*parts), None, {})
    assert (found.user, found.password, found.vhost) == (user, password, vhost)


def test_the_flag_beats_the_variable() -> None:
    environ = {"HEADRACE_URL": "headrace://other:1@elsewhere:1", "HEADRACE_PASSWORD": "pw"}
    found = find_address("headrace://ann@here:2", None, environ)
    assert found == Settings("here", 2, "ann", "pw")


def test_the_password_file_beats_all(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("from file \r\n")
    found = find_address("headrace://a:b@h", file, {"HEADRACE_PASSWORD": "c"})
    assert found.password == "from file "
    assert "from file" not in repr(found)


def test_a_password_file_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="not UTF-8"):
        find_address(None, file, {})


@given(st.text(max_size=40))
def test_any_text_is_an_address_or_refused_without_being_repeated(text: str) -> None:
    try:
        find_address("headrace://me:hunter2@" + text, None, {})
    except ConfigError as error:
        assert "hunter2" not in str(error)


def test_messages_show_host_and_port_only() -> None:
    assert Settings("::1", 9, "ann", "pw").where == "[::1]:9"
