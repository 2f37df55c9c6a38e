"""`headrace pipeline`: run a pipeline file on Spark, validate it, list running ones."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import click

from headrace.cli.support.options import flag
from headrace.cli.support.output import DONE, Column, counted, json_option, show, wants_json
from headrace.cli.support.spark_session import (
    SessionSettings,
    debug_option,
    on_signals,
    open_session,
    settings_of,
    spark_options,
    state_option,
    with_spark_errors,
)

file_argument = click.argument("file", metavar="FILE", type=click.Path(path_type=Path))


@click.group()
def pipeline() -> None:
    """Data pipelines on Spark: sources, SQL and sinks in one file."""


@pipeline.command()
@file_argument
@flag("--once", "Process all messages that exist now, then stop.")
@spark_options
def run(file: Path, once: bool, session: SessionSettings) -> int:
    """Run the pipeline in FILE until SIGTERM or Ctrl-C.

    The current batch is finished first. A restart continues where it stopped; nothing is lost or
    duplicated. Progress is a line on a terminal, and one JSON object per batch on standard error
    otherwise.
    """
    from headrace.spark import spark_session
    from headrace.spark.class_archive import VARIABLE
    from headrace.spark.pipelines.file import load
    from headrace.spark.pipelines.progress import ProgressLine
    from headrace.spark.pipelines.run import PipelineRunner
    from headrace.spark.pipelines.validate import contact

    loaded = load(file)
    settings_of(session.conf)
    spark_session.check_java()
    contact(loaded)
    directory = session.state()
    stop = threading.Event()
    on_signals(stop.set)  # also while Spark starts
    path = loaded.directory.resolve()
    is_first = not (directory / "pipelines").exists()  # in a container the only one, perhaps
    may_record = once and (VARIABLE in os.environ or not is_first)
    try:
        with open_session(loaded.name, session, python_path=path, may_record=may_record) as spark:
            runner = PipelineRunner(
                spark, loaded, directory, once=once, stop=stop, shown=ProgressLine(loaded.name)
            )
            state = runner.run()
            bad = state["bad_records"]
    finally:
        spark_session.stop_java()  # nothing is left behind when this process has ended
    assert isinstance(bad, int)
    if bad:
        click.echo(f"{counted(bad, 'bad record')} in {runner.bad_records}", err=True)
    return DONE


@pipeline.command()
@file_argument
@flag("--no-spark", "Validate the file only, without SQL: needs no Java.")
@spark_options
def validate(file: Path, no_spark: bool, session: SessionSettings) -> int:
    """Validate FILE without running it: names, SQL, schemas, sinks. No broker is contacted."""
    from headrace.spark.pipelines.file import load

    loaded = load(file)
    if not no_spark:
        from headrace.spark.pipelines.validate import check

        path = loaded.directory.resolve()
        with open_session(loaded.name, session, python_path=path) as spark:
            check(spark, loaded)
    parts = (
        counted(len(loaded.sources), "source"),
        counted(len(loaded.steps), "step"),
        counted(len(loaded.sinks), "sink"),
    )
    click.echo(f"{file}: fine ({', '.join(parts)})")
    return DONE


@pipeline.command(name="list")
@state_option
@json_option
@debug_option
@with_spark_errors
def list_(state_dir: Path | None, debug: bool) -> int:
    """List the pipelines of this machine with their progress."""
    from headrace.spark.pipelines.status import all_states, state_directory

    states = list(all_states(state_directory(state_dir, os.environ)))
    if not wants_json():
        for state in states:
            queries = state.get("queries")
            assert isinstance(queries, list)
            state["rows"] = max((one["rows"] for one in queries), default=0)
            state["lag"] = max((one["lag"] for one in queries), default=0)
    columns = [
        Column("name", "pipeline"),
        Column("state", "state"),
        Column("rows", "rows", is_number=True),
        Column("lag", "lag", is_number=True),
        Column("bad_records", "bad records", is_number=True),
        Column("updated_at", "updated"),
        Column("error", "error"),
    ]
    return show(columns, states, nothing="no pipeline has run on this machine")
