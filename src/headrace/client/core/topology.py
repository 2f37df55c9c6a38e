"""What a connection has declared, so that it can be declared again after a reconnection. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.wire.native.payloads import Op

Fields = dict[str, Any]


@dataclass(slots=True)
class DeclaredBinding:
    fields: Fields

    @property
    def source(self) -> str:
        return str(self.fields["source"])

    def is_to(self, kind: str, name: str) -> bool:
        return self.fields.get(kind) == name


@dataclass(slots=True)
class Topology:
    """The records of one connection. Its methods are called when the broker has said yes."""

    exchanges: dict[str, Fields] = field(default_factory=dict)
    queues: dict[str, Fields] = field(default_factory=dict)
    bindings: list[DeclaredBinding] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    """Names which the broker gave earlier, and the names that these queues have now."""
    server_named: set[str] = field(default_factory=set)

    # -- keeping the records ---------------------------------------------------------------------

    def add_exchange(self, fields: Fields) -> None:
        self.exchanges[fields["name"]] = fields

    def drop_exchange(self, name: str) -> None:
        self.exchanges.pop(name, None)
        for one in [b for b in self.bindings if b.source == name or b.is_to("exchange", name)]:
            self._drop_binding(one)

    def add_queue(self, fields: Fields, name: str) -> None:
        """``name`` is what the broker called it."""
        if not fields["name"]:
            self.server_named.add(name)
        self.queues[name] = {**fields, "name": name}

    def drop_queue(self, name: str) -> None:
        self.queues.pop(name, None)
        self.server_named.discard(name)
        for one in [b for b in self.bindings if b.is_to("queue", name)]:
            self._drop_binding(one)

    def add_binding(self, fields: Fields) -> None:
        if all(one.fields != fields for one in self.bindings):
            self.bindings.append(DeclaredBinding(fields))

    def drop_binding(self, fields: Fields) -> None:
        """Without a key: every binding of the pair."""
        for one in [b for b in self.bindings if _matches(b.fields, fields)]:
            self._drop_binding(one)

    def _drop_binding(self, binding: DeclaredBinding) -> None:
        self.bindings.remove(binding)
        source = self.exchanges.get(binding.source)
        if source is None or not source["auto_delete"]:
            return
        if all(one.source != binding.source for one in self.bindings):
            self.drop_exchange(binding.source)  # the broker has deleted it by itself

    def last_consumer_left(self, queue: str) -> None:
        """A queue that deletes itself is gone now."""
        record = self.queues.get(queue)
        if record is not None and record["auto_delete"]:
            self.drop_queue(queue)

    # -- names -----------------------------------------------------------------------------------

    def resolve(self, number: int, fields: Fields) -> Fields:
        """The fields of a request with the present names of queues."""
        if not self.aliases:
            return fields
        key = "name" if number in (Op.QUEUE_DECLARE, Op.QUEUE_DELETE) else "queue"
        if number == Op.PUBLISH:
            return self._resolve_publish(fields)
        name = self.aliases.get(fields.get(key, ""))
        return fields if name is None else {**fields, key: name}

    def _resolve_publish(self, fields: Fields) -> Fields:
        if "batch" in fields:
            return {**fields, "batch": [self._resolve_publish(one) for one in fields["batch"]]}
        name = self.aliases.get(fields["key"]) if not fields["exchange"] else None
        return fields if name is None else {**fields, "key": name}

    def rename(self, old: str, new: str) -> None:
        self.queues[new] = {**self.queues.pop(old), "name": new}
        self.server_named.discard(old)
        self.server_named.add(new)
        for one in self.bindings:
            if one.is_to("queue", old):
                one.fields["queue"] = new
        for former, present in self.aliases.items():
            if present == old:
                self.aliases[former] = new
        self.aliases[old] = new


def _matches(record: Fields, asked: Fields) -> bool:
    wanted = ("queue", "exchange", "source")
    if any(record.get(name) != asked.get(name) for name in wanted):
        return False
    return "key" not in asked or record.get("key", "") == asked["key"]
