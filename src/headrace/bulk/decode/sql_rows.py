"""Rows of a database to Arrow batches, by connectorx."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from headrace.bulk.decode.schema import COLUMNS, PROPERTIES, schema_of
from headrace.bulk.read_plan import SqlPlan
from headrace.errors import EngineUnavailable, SourceChanged
from headrace.model.topics.source_address import address_text


def batch_of(plan: SqlPlan) -> pa.RecordBatch:
    """The rows of a plan; SourceChanged when they are those of another topic."""
    found = _read(plan.url, plan.rows_query)
    uuids = _read(plan.url, plan.uuid_query).column(0).to_pylist()
    if uuids != [plan.uuid]:
        raise SourceChanged(
            f"topic '{plan.source}' was deleted and created again while it was read: these are not "
            "the messages of the checkpoint"
        )
    return _batch(found, plan)


def _read(url: str, query: str) -> pa.Table:
    import connectorx

    try:
        return connectorx.read_sql(url, query, return_type="arrow", protocol="binary")
    except RuntimeError as error:
        # It does not say whether the server is gone; who waits for that tries again.
        raise EngineUnavailable(f"the database cannot be read: {str(error)[:500]}") from None


def _batch(found: pa.Table, plan: SqlPlan) -> pa.RecordBatch:
    """Rows as the database gives them, in the columns of the source."""
    n = found.num_rows
    props = _PropertyDecoder(found) if "props" in found.column_names else None
    made = []
    for name in plan.columns:
        kind = COLUMNS[name]
        if name == "source":
            column = pa.repeat(pa.scalar(plan.source), n)
        elif name == "partition":
            column = pa.array(np.full(n, plan.partition, np.int32))
        elif name == "priority":
            column = pa.repeat(pa.scalar(plan.lane), n)
        elif name in ("offset", "timestamp", "key", "body"):
            column = _joined(found, name)
        elif name in ("born", "tags", "message_id", "properties"):
            assert props is not None
            column = props.column(name, kind)
        else:
            column = pa.nulls(n, kind)
        made.append(column if column.type == kind else column.cast(kind))
    return pa.RecordBatch.from_arrays(made, schema=schema_of(plan.columns))


def _joined(found: pa.Table, name: str) -> pa.Array:
    column = found.column(name).combine_chunks()
    return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column


class _PropertyDecoder:
    """What is kept as JSON, decoded once per distinct text."""

    def __init__(self, found: pa.Table) -> None:
        self._found = found
        encoded = _joined(found, "props").dictionary_encode()
        self._which = encoded.indices
        self._values = [json.loads(one) if one else {} for one in encoded.dictionary.to_pylist()]

    def column(self, name: str, kind: pa.DataType) -> pa.Array:
        if name == "properties":
            return self._maps()
        values = [one.get(name) for one in self._values]
        if name == "born":
            values = [None if one is None else one * 1000 for one in values]
            return pa.array(values, pa.int64()).take(self._which).cast(COLUMNS["timestamp"])
        return pa.array(values, kind).take(self._which)

    def _maps(self) -> pa.Array:
        """With the token and the address of the producer, where they are known."""
        tokens = _joined(self._found, "token").dictionary_encode()
        addresses = _joined(self._found, "source_ip").dictionary_encode()
        combined = pa.StructArray.from_arrays(
            [self._which, tokens.indices, addresses.indices], names=["p", "t", "a"]
        )
        keys = _packed(combined)
        unique = keys.unique()
        token_texts = tokens.dictionary.to_pylist()
        address_texts = [
            address_text(bytes.fromhex(one)) for one in addresses.dictionary.to_pylist()
        ]
        made = []
        for key in unique.to_pylist():
            p, t, a = (int(part) - 1 for part in key.split(","))
            own: dict[str, str] = {}
            if t >= 0 and token_texts[t]:
                own["token"] = token_texts[t]
            if a >= 0 and (address := address_texts[a]) is not None:
                own["source_ip"] = address
            given: Mapping[str, str] = self._values[p].get("properties", {}) if p >= 0 else {}
            named = {f"header.{k}" if k in own else k: v for k, v in given.items()}
            made.append(list({**own, **named}.items()))
        return pa.array(made, PROPERTIES).take(pa.compute.index_in(keys, unique))


def _packed(combined: pa.StructArray) -> pa.Array:
    """Three small numbers as one text, counted from 1; 0 stands for null."""
    columns = [
        pa.compute.add(pa.compute.fill_null(combined.field(name), -1), 1).cast(pa.string())
        for name in ("p", "t", "a")
    ]
    return pa.compute.binary_join_element_wise(*columns, ",")
