"""Settings: the original defaults, and one clear line for each value that cannot be used."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from headrace.rocketmq import (
    AllocateQueueStrategy,
    ConfigurationError,
    ConsumeFromWhere,
    ConsumerConfig,
    MessageModel,
    ProducerConfig,
)


def config(**values: object) -> ConsumerConfig:
    return ConsumerConfig(**{"consumer_group": "g", "namesrv_addr": "localhost:9876", **values})  # type: ignore[arg-type]


def producer(**values: object) -> ProducerConfig:
    return ProducerConfig(**{"producer_group": "g", "namesrv_addr": "localhost:9876", **values})  # type: ignore[arg-type]


def test_defaults_are_those_of_the_original_api() -> None:
    expected = {
        "message_model": MessageModel.CLUSTERING,
        "consume_thread_min": 20,
        "consume_thread_max": 64,
        "pull_batch_size": 32,
        "pull_interval": 0,
        "consume_timeout": 15,
        "max_reconsume_times": 16,
        "consume_from_where": ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        "consume_timestamp": 0,
        "allocate_queue_strategy": AllocateQueueStrategy.AVERAGE,
        "persist_interval": 5000,
        "persist_batch_size": 10,
        "offset_store_path": "~/.rocketmq/offsets",
        "max_cache_size": 10000,
        "enable_auto_recovery": True,
        "max_retry_times": 3,
        "orderly_max_reconsume_times": 16,
        "orderly_consume_timeout": 30,
        "orderly_suspend_current_queue_time_millis": 1000,
        "enable_auto_commit": True,
    }
    made = config()
    assert {name: getattr(made, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("consumer_group", ""),
        ("consumer_group", "a b"),
        ("consumer_group", "DEFAULT_CONSUMER"),
        ("consumer_group", "x" * 121),
        ("namesrv_addr", ""),
        ("namesrv_addr", "localhost"),
        ("namesrv_addr", "localhost:99999"),
        ("namesrv_addr", "a:1;b"),
        ("message_model", "SOMETIMES"),
        ("consume_thread_min", 0),
        ("consume_thread_max", 1001),
        ("consume_thread_max", True),
        ("pull_batch_size", 0),
        ("pull_batch_size", 1025),
        ("pull_batch_size", 3.5),
        ("pull_interval", -1),
        ("consume_timeout", 0),
        ("max_reconsume_times", -2),
        ("consume_from_where", "HERE"),
        ("consume_timestamp", "yesterday"),
        ("consume_timestamp", -5),
        ("allocate_queue_strategy", "AVERAGE?"),
        ("persist_interval", 0),
        ("persist_batch_size", 0),
        ("offset_store_path", ""),
        ("max_cache_size", 0),
        ("enable_auto_recovery", "yes"),
        ("max_retry_times", -1),
        ("orderly_consume_timeout", 0),
        ("enable_auto_commit", 1),
        ("access_key", "only"),
    ],
)
def test_bad_values_are_refused_with_their_name(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=name):
        config(**{name: value})


def test_group_and_name_server_need_no_names() -> None:
    assert ConsumerConfig("g", "a:1", "BROADCASTING").is_broadcasting  # type: ignore[arg-type]
    assert ProducerConfig("g", "a:1").name_servers == ("a:1",)
    with pytest.raises(TypeError):
        ConsumerConfig("g", "a:1", MessageModel.CLUSTERING, 5)  # type: ignore[misc]


def test_several_name_servers() -> None:
    made = config(namesrv_addr=" a:1; b:2;[::1]:3; ")
    assert made.name_servers == ("a:1", "b:2", "[::1]:3")


def test_texts_stand_for_members() -> None:
    made = config(message_model="BROADCASTING", consume_from_where="CONSUME_FROM_FIRST_OFFSET")
    assert made.message_model is MessageModel.BROADCASTING
    assert made.consume_from_where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


@pytest.mark.parametrize(("given", "kept"), [(-1, 1000), (0, 10), (500, 500), (99_999, 30_000)])
def test_the_pause_of_an_orderly_queue_is_clamped(given: int, kept: int) -> None:
    made = config(orderly_suspend_current_queue_time_millis=given)
    assert made.orderly_suspend_current_queue_time_millis == kept


def test_timestamps_in_three_forms() -> None:
    moment = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    millis = int(moment.timestamp() * 1000)
    assert config(consume_timestamp=moment).start_timestamp == millis
    assert config(consume_timestamp=millis).start_timestamp == millis
    local = moment.astimezone().strftime("%Y%m%d%H%M%S")
    assert config(consume_timestamp=local).start_timestamp == millis
    half_an_hour_ago = datetime.now().timestamp() * 1000 - 30 * 60_000
    assert abs(config().start_timestamp - half_an_hour_ago) < 60_000


def test_the_directory_of_offsets_is_expanded() -> None:
    assert "~" not in str(config().offset_directory)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("producer_group", "DEFAULT_PRODUCER"),
        ("send_timeout", 0),
        ("retry_times_when_send_failed", -1),
        ("compress_level", 10),
        ("max_message_size", 0),
        ("send_latency_fault_enable", 0),
        ("secret_key", "only"),
    ],
)
def test_bad_producer_settings(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=name):
        producer(**{name: value})


def test_configurations_do_not_change() -> None:
    with pytest.raises(AttributeError):
        config().pull_batch_size = 5  # type: ignore[misc]


def test_secrets_are_not_shown() -> None:
    keys = {"access_key": "clerk", "secret_key": "hush"}
    for made in (config(**keys), producer(**keys)):
        assert "clerk" in repr(made)
        assert "hush" not in repr(made)


@pytest.mark.parametrize(
    ("given", "threads"),
    [
        ({"consume_thread_max": 8}, (8, 8)),
        ({"consume_thread_min": 100}, (100, 100)),
        ({"consume_thread_max": 30}, (20, 30)),
    ],
)
def test_one_setting_is_enough_for_the_number_of_threads(
    given: dict[str, int], threads: tuple[int, int]
) -> None:
    config = ConsumerConfig("g", "127.0.0.1:9876", **given)  # type: ignore[arg-type]
    assert (config.consume_thread_min, config.consume_thread_max) == threads


def test_contradicting_numbers_of_threads_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="consume_thread_min"):
        ConsumerConfig("g", "127.0.0.1:9876", consume_thread_min=9, consume_thread_max=8)
