"""What `headrace report --keep-as NAME` sends is what the broker keeps; without Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headrace.cli.spark.report import kept_form, management_of
from headrace.client.settings import Settings
from headrace.errors import CommandFailed
from headrace.testing import RunningBroker

model = pytest.importorskip("headrace.spark.reports.model")

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)


def made() -> object:
    hours = [BEGIN + timedelta(hours=number) for number in range(3)]
    return model.Report(
        since=BEGIN,
        until=BEGIN + timedelta(days=1),
        window="1 hour",
        tables=(model.ReportTable("Latency", ("queue", "p95", "first"), [("q", 1.5, BEGIN)]),),
        charts=(model.Chart("In", "1/s", {"q": [(at.replace(tzinfo=None), 2) for at in hours]}),),
        notes=("a note",),
    )


def test_a_report_is_kept_by_the_broker_it_is_about(site: RunningBroker) -> None:
    address = Settings(user="guest", password="guest")
    client = management_of(address, None, {"HEADRACE_HTTP_URL": str(site.http_url)})
    client.request("PUT", ("reports", "/", "daily"), kept_form(made()))  # type: ignore[arg-type]

    kept = client.get("reports", "/", "daily")
    assert kept["tables"][0]["rows"] == [["q", 1.5, "2026-03-01 00:00:00+00:00"]]
    assert kept["charts"][0]["lines"]["q"][0] == ["2026-03-01T00:00:00+00:00", 2.0]
    assert (kept["from"], kept["window"]) == ("2026-03-01T00:00:00+00:00", "1 hour")


@pytest.mark.parametrize(
    ("host", "url", "environ", "where"),
    [
        ("10.0.0.7", None, {}, "10.0.0.7:15672"),
        ("::1", None, {}, "::1:15672"),
        ("10.0.0.7", "http://a@other:8080", {"HEADRACE_HTTP_URL": "http://b"}, "other:8080"),
        ("10.0.0.7", None, {"HEADRACE_HTTP_URL": "https://b"}, "b:443"),
    ],
)
def test_the_default_is_the_http_port_of_the_same_host(
    host: str, url: str | None, environ: dict[str, str], where: str
) -> None:
    assert management_of(Settings(host=host, user="ann"), url, environ).where == where


def test_the_login_is_that_of_the_address(site: RunningBroker) -> None:
    url = str(site.http_url).replace("http://", "http://nobody@")
    with pytest.raises(CommandFailed, match="refused user 'nobody'"):
        management_of(Settings(), url, {"HEADRACE_PASSWORD": "x"}).get("whoami")
