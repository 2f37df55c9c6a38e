"""The pages of the RocketMQ SDK leave nothing out."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields

from headrace import rocketmq
from headrace.rocketmq import errors
from headrace.rocketmq.consuming.listeners import ConsumeContext
from support import doc_pages

PAGES = sorted(doc_pages.DOCS.glob("rocketmq-*.md"))
PAGE = "\n".join(page.read_text("utf-8") for page in PAGES)


def missing(names: list[str]) -> list[str]:
    return [name for name in names if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", PAGE)]


def test_every_setting_is_on_the_page() -> None:
    kinds = (rocketmq.ConsumerConfig, rocketmq.ProducerConfig)
    assert missing([one.name for kind in kinds for one in fields(kind)]) == []


def test_every_error_is_on_the_page() -> None:
    kinds = [one for _, one in inspect.getmembers(errors, inspect.isclass)]
    assert missing([one.__name__ for one in kinds if one.__module__ == errors.__name__]) == []


def test_every_counter_is_on_the_page() -> None:
    names = [*rocketmq.ConsumerMetrics().to_dict(), *rocketmq.ProducerMetrics().to_dict()]
    assert missing(names) == []


def test_every_method_of_the_subscription_manager_is_on_the_page() -> None:
    names = [name for name in dir(rocketmq.SubscriptionManager) if not name.startswith("_")]
    assert missing(names) == []


def test_what_a_listener_can_say_is_on_the_page() -> None:
    names = [one.name for one in rocketmq.ConsumeResult]
    names += [one.name for one in fields(ConsumeContext) if one.name not in ("queue",)]
    assert missing([name for name in names if name != "auto_commit"]) == []


def test_every_class_has_an_example() -> None:
    blocks = [
        one.text for page in PAGES for one in doc_pages.blocks(page) if one.language == "python"
    ]
    code = "\n".join(blocks)
    kinds = {name: getattr(rocketmq, name) for name in rocketmq.__all__}
    names = [
        name
        for name, kind in kinds.items()
        if inspect.isclass(kind) and not issubclass(kind, rocketmq.RocketMQError)
    ]
    assert [name for name in names if not re.search(rf"\b{name}\b", code)] == []
