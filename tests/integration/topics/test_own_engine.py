"""An engine of another package, found by its entry point: the SQLite example of the docs."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from headrace import option_types, topics
from headrace.errors import ConfigError
from headrace.store.topics import plugins
from headrace.testing import run_broker

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the package is installed."""
    found = EntryPoint("sqlite", "sqlite_engine:open_engine", plugins.GROUP)

    def entry_points(*, group: str, name: str = "sqlite") -> list[EntryPoint]:
        return [found] if (group, name) == (plugins.GROUP, "sqlite") else []

    monkeypatch.syspath_prepend(str(EXAMPLES))
    for module in (plugins, option_types):
        monkeypatch.setattr(module, "entry_points", entry_points)


def test_it_is_opened_by_its_scheme(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/topics.db"
    with topics.open(url) as store:
        store.create("orders", retention="7d")
        store.producer("orders", token="p").append_many([b"1", b"2", b"3"])
        consumer = store.consumer("orders", token="c", group="g")
        consumer.commit(consumer.read(1))
        consumer.nack(consumer.read(1), delay=0.0, reason="later")
    with topics.open(url) as store:
        assert str(store.describe("orders").retention) == "7d"
        batch = store.consumer("orders", token="c", group="g").read(10)
        assert sorted(one.body for one in batch) == [b"2", b"3"]


def test_a_broker_has_it_as_an_engine(tmp_path: Path) -> None:
    engine = (("files", f"sqlite://{tmp_path}/topics.db"),)
    with run_broker(sync=False, engine=engine) as broker:
        url = f"headrace://guest:guest@127.0.0.1:{broker.native_port}/"
        with topics.open(url) as store:
            assert store.create("orders", engine="files").engine == "files"
            store.producer("orders", token="p").append(b"kept")
    with run_broker(sync=False, engine=engine) as broker:
        url = f"headrace://guest:guest@127.0.0.1:{broker.native_port}/"
        with topics.open(url) as store:
            assert [one.body for one in store.consumer("orders", token="c").read(10)] == [b"kept"]


def test_an_unknown_scheme_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        ConfigError, match=r"'redis': expected one of mysql://, .* memory:, sqlite:"
    ):
        topics.open("redis://127.0.0.1")


def test_the_example_is_short() -> None:
    assert len((EXAMPLES / "sqlite_engine.py").read_text().splitlines()) < 200
