"""URLs of brokers: every part may be missing; errors never repeat the password."""

from __future__ import annotations

import pytest

from headrace.client import ConnectionFactory
from headrace.client.settings import settings_of
from headrace.spark.options import BadOption, read_options
from headrace.urls import parse_broker_url


def parts(url: str) -> tuple[str, int, str, str, str, object]:
    found = settings_of(url)
    return found.host, found.port, found.user, found.password, found.vhost, found.tls


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("headrace://", ("127.0.0.1", 9090, "guest", "guest", "/", False)),
        ("headraces://mq.example", ("mq.example", 9091, "guest", "guest", "/", True)),
        ("headrace://mq:7/", ("mq", 7, "guest", "guest", "/", False)),
        ("headrace://a%40b:p%2Fq@[::1]:7/x%2Fy", ("::1", 7, "a@b", "p/q", "x/y", False)),
        ("headrace://me:@mq", ("mq", 9090, "me", "", "/", False)),
    ],
)
def test_parts_of_a_url(url: str, wanted: object) -> None:
    assert parts(url) == wanted


@pytest.mark.parametrize(
    "url",
    ["amqp://me:secret@mq/", "headrace://me:secret@mq:port/", "headrace://me:secret@mq/a/b", "mq"],
)
def test_a_wrong_url_is_reported_without_its_password(url: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_broker_url(url)
    assert "secret" not in str(caught.value)


def test_options_go_over_the_url() -> None:
    factory = ConnectionFactory.from_url("headrace://mq", port=5, reconnect=False)
    assert (factory.settings.port, factory.settings.reconnect) == (5, False)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("headrace://mq:port/", "url: invalid host or port"),
        ("mysql://[::1/db", "url: invalid host or port"),
        ("headrace://mq/a/b", "url: write / in the name of a vhost as %2F"),
        ("http://mq", "url: expected one of headrace://, headraces://, mysql://"),
    ],
)
def test_the_spark_source_refuses_the_same_urls(url: str, text: str) -> None:
    with pytest.raises(BadOption) as caught:
        read_options({"url": url, "topic": "t"})
    assert str(caught.value).startswith(text)


def test_a_url_with_several_hosts() -> None:
    found = settings_of("headrace://mq1:mq2@mq1:7,mq2,[::1]/v")
    assert (found.user, found.password, found.vhost) == ("mq1", "mq2", "v")
    assert found.hosts == (("mq1", 7), ("mq2", 9090), ("::1", 9090))
    assert settings_of("headraces://a,b:1").hosts == (("a", 9091), ("b", 1))


@pytest.mark.parametrize("hosts", ["a,,b", "a,", "a:x,b"])
def test_hosts_that_are_none(hosts: str) -> None:
    with pytest.raises(ValueError, match="invalid host"):
        parse_broker_url(f"headrace://{hosts}/")
