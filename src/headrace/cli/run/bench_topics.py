"""`headrace bench topics`: topics in MySQL against the plain ways to do the same."""

from __future__ import annotations

import click

from headrace.cli.run.ratios import announced, case_options, choose, judge, list_cases
from headrace.cli.support.output import Column


@click.command("topics")
@case_options
def bench_topics(
    chosen: tuple[str, ...], seconds: float, json_file: str | None, list_only: bool
) -> int:
    """Measure topics in a private MariaDB and print ratios.

    Needs mariadbd on this machine. Exit code 1 when a ratio is not what is wanted.
    """
    from headrace.bench.compare.topics import CASES, DATABASE
    from headrace.testing.mariadb import run_mariadb

    names = choose(chosen, CASES)
    if list_only:
        return list_cases(names, CASES)
    results = []
    with run_mariadb() as server:
        server.create_database(DATABASE)
        for measure in announced(names, CASES):
            results.append(measure(server, seconds))
    first = Column("ours", "first", is_number=True)
    second = Column("other", "second", is_number=True)
    return judge(results, json_file, first, second, Column("about", "first / second"))
