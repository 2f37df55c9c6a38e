"""Pipeline files: what can be said of them without Spark, and where errors point to."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.spark.errors import BadPipeline
from headrace.spark.pipelines.file import load

GOOD = """
name = "p"
url = "headrace://u:secret@broker:9090/"

[sources.orders]
queue = "orders"
decode = "json"
schema = "id BIGINT"
max_rows_per_trigger = 100
watermark = { column = "at", delay = "5 minutes" }

[[steps]]
name = "one"
sql = '''
SELECT * FROM orders
'''

[[steps]]
name = "two"
python = "module.inner:function"

[sinks.out]
type = "console"
"""


def write(tmp_path: Path, text: str, name: str = "p.toml") -> Path:
    file = tmp_path / name
    file.write_text(text, "utf-8")
    return file


def refusal(tmp_path: Path, text: str, name: str = "p.toml") -> str:
    with pytest.raises(BadPipeline) as told:
        load(write(tmp_path, text, name), {})
    return str(told.value).removeprefix(str(tmp_path / name))


def test_a_file_becomes_a_pipeline(tmp_path: Path) -> None:
    pipeline = load(write(tmp_path, GOOD), {})
    source = pipeline.sources[0]
    assert source.options == {
        "url": "headrace://u:secret@broker:9090/",
        "queue": "orders",
        "maxRowsPerTrigger": "100",
    }
    assert (source.decode.format, source.decode.schema) == ("json", "id BIGINT")
    assert pipeline.steps[0].sql_line == 15
    assert pipeline.steps[1].python == "module.inner:function"
    assert pipeline.sinks[0].view == "two"
    assert "secret" not in repr(pipeline)


def test_yaml_says_the_same_as_toml(tmp_path: Path) -> None:
    text = """
name: p
url: "headrace://u:secret@broker:9090/"
sources:
  orders:
    queue: orders
    decode: json
    schema: id BIGINT
    max_rows_per_trigger: 100
    watermark: {column: at, delay: 5 minutes}
steps:
  - name: one
    sql: |
      SELECT * FROM orders
  - {name: two, python: "module.inner:function"}
sinks:
  out: {type: console}
"""
    toml = load(write(tmp_path, GOOD), {})
    yaml = load(write(tmp_path, text, "p.yaml"), {})
    assert [one.options for one in yaml.sources] == [one.options for one in toml.sources]
    assert [(one.name, one.sql or "", one.python) for one in yaml.steps] == [
        (one.name, one.sql or "", one.python) for one in toml.steps
    ]
    assert [(one.name, one.type, one.view) for one in yaml.sinks] == [("out", "console", "two")]
    assert yaml.steps[0].sql_line == 14


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('queue = "orders"', 'queue = ""', ":5: give one of the options"),
        ('queue = "orders"', 'queu = "orders"', ":6: unknown 'queu'; did you mean"),
        ('max_rows_per_trigger = 100', 'max_rows_per_triger = 1', ":9: unknown 'max_rows_per_tri"),
        ('max_rows_per_trigger = 100', 'max_rows_per_trigger = 0', ":9: maxrowspertrigger"),
        ('decode = "json"', 'decode = "xml"', ":7: 'decode' is 'xml'; expected one of json"),
        ('schema = "id BIGINT"', "", ":7: decode = 'json' needs a 'schema'"),
        ("5 minutes", "soon", ":10: 'delay' is 'soon'"),
        ("SELECT * FROM", "DROP TABLE", ":14: 'sql' must be a query"),
        ("module.inner:function", "module", ":20: 'python' is 'module'"),
        ('name = "two"', 'name = "one"', ":18: the name 'one' is already used in line 12"),
        ('type = "console"', 'type = "kafka"', ":23: 'type' is 'kafka'"),
        ('type = "console"', 'type = "delta"', ":22: 'path' is missing"),
        ('type = "console"', 'type = "delta"\npaht = "p"', ":24: unknown 'paht'; did you mean"),
        ('type = "console"', 'typ = "delta"', ":23: unknown 'typ'; did you mean 'type'?"),
        ('type = "console"', 'type = "console"\nfrom = "x"', ":24: unknown view 'x'"),
        ('type = "console"', 'type = "parquet"\npath = "p"\nmode = "update"', ":25: a sink of"),
        ('name = "p"', 'nome = "p"', ":2: unknown 'nome'; did you mean 'name'?"),
        ('name = "p"', 'name = "p', ":2: not TOML"),
        ("u:secret@broker", "${WHO}", ":3: environment variable WHO is not set"),
    ],
)  # fmt: skip
def test_an_error_names_its_line(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert old in GOOD
    assert refusal(tmp_path, GOOD.replace(old, new)).startswith(told)


def test_an_error_in_yaml_names_its_line(tmp_path: Path) -> None:
    text = "sources:\n  a: {queue: q}\nsinks:\n  out:\n    type: nowhere\n"
    assert refusal(tmp_path, text, "p.yaml").startswith(":5: 'type' is 'nowhere'")
    assert refusal(tmp_path, "a: [1\nb: 2\n", "p.yaml").startswith(":2: not YAML")


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(BadPipeline, match=r"cannot read .*: No such file"):
        load(tmp_path / "none.toml", {})


def test_variables_come_from_the_environment(tmp_path: Path) -> None:
    text = GOOD.replace("u:secret@broker", "${WHO:-guest}@${WHERE}")
    pipeline = load(write(tmp_path, text), {"WHERE": "there"})
    assert pipeline.sources[0].options["url"] == "headrace://guest@there:9090/"


def test_paths_begin_where_the_file_is(tmp_path: Path) -> None:
    sink = 'type = "delta"\npath = "out/t"\npartition_by = "day"'
    pipeline = load(write(tmp_path, GOOD.replace('type = "console"', sink)), {})
    assert pipeline.sinks[0].settings["path"] == str(tmp_path / "out/t")
    assert pipeline.sinks[0].partition_by == ("day",)
