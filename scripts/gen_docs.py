"""Write the pages of docs/ that come from the code; with --check only say which are stale."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

from headrace import config, errors
from headrace.cli.inspect.explain import ADVICE
from headrace.errors import row_of
from headrace.server.http import error_codes as http
from headrace.wire.amqp import error_codes as amqp
from headrace.wire.native import error_codes as native
from headrace.wire.remoting import error_codes as remoting
from headrace.wire.remoting.codes import ResponseCode

DOCS = Path(__file__).resolve().parent.parent / "docs"

INTRODUCTION = """\
# Configuration

<!-- Written by scripts/gen_docs.py from src/headrace/config.py; `make docs` renews it. -->

A broker needs no configuration: `headrace serve` listens on 127.0.0.1 and keeps everything in
`./headrace-data`. Settings can be changed in three places; the later one wins:

1. a TOML file, named by `--config FILE` or `HEADRACE_CONFIG`;
2. environment variables;
3. flags of `headrace serve`.

A setting has the same name in all three: `amqp_port` in the file, `HEADRACE_AMQP_PORT` in the
environment, `--amqp-port` as a flag. An unknown key in the file or a value that cannot be used
stops the start with exit code 2 and one line that names the place, the key and what is allowed.
An empty variable counts as not set. Relative paths start at the working directory.

```toml
# headrace.toml
data_dir = "/var/lib/headrace"
host = "0.0.0.0"
heartbeat = 30
max_message_size = "64MiB"
memory_high_watermark = "60%"
```

Sizes are bytes, or a number with a unit: `kB`, `MB`, `GB`, `TB` are powers of 1000; `KiB`, `MiB`,
`GiB`, `TiB` (or `k`, `M`, `G`, `T`) are powers of 1024.
"""

HEADER = """\
| key | flag | variable | default | meaning |
|---|---|---|---|---|
"""

SECRETS = (
    "\nA setting without a flag is a secret: every user of the machine can read command lines.\n"
)


def flag_text(option: config.Option) -> str:
    if option.flag is None:
        return "none"
    return f"`{option.flag}`, `--no-{option.flag[2:]}`" if option.is_switch else f"`{option.flag}`"


def row(option: config.Option) -> str:
    default = option.default_text
    if default not in ("not set", "hidden"):
        default = f"`{default}`"
    meaning = f"{option.help} Allowed: {option.kind.allowed}."
    return f"| `{option.name}` | {flag_text(option)} | `{option.env}` | {default} | {meaning} |\n"


def configuration_page() -> str:
    parts = [INTRODUCTION]
    for title, group in groupby(config.options().values(), key=lambda option: option.group):
        parts += [f"\n## {title}\n\n", HEADER, *(row(option) for option in group)]
    return "".join([*parts, SECRETS])


# -- errors ------------------------------------------------------------------------------------

ERRORS_INTRODUCTION = """\
# Errors

<!-- Written by scripts/gen_docs.py from the tables of error codes; `make docs` renews it. -->

Every error that the broker reports is a class, which determines what happens. AMQP clients get its
code and a text of the form `NAME - explanation`, with the method that caused it. Codes and texts
are those of RabbitMQ wherever it has them. In programs, check the code, not the text. All classes
derive from `BrokerError`. [Troubleshooting](troubleshooting.md) starts from symptoms.
"""

CHANNEL_ERRORS = """\

## The channel closes

Classes under `ChannelError`. The connection stays open; open a new channel. Unacknowledged messages
of the channel return to their queues, an open transaction is rolled back.

"""

CONNECTION_ERRORS = """\

## The connection closes

Classes under `FatalError`. The client does not speak the protocol as it should, may not come in, or
the broker stops. Exclusive queues go with the connection.

"""

ERRORS_HEADER = """\
| AMQP | name | class | native | HTTP | RocketMQ | when | what to do |
|---|---|---|---|---|---|---|---|
"""

ERRORS_END = """\

## The HTTP API refuses

`HttpRefused`: a request that cannot be answered as asked. The answer is JSON: `error` is a short
name, `reason` a sentence. 400 for a bad body or query, 401 when the user may not do this, 404 for
what is not there; 403, 405, 408, 413, 415 and 421 as HTTP has them. Errors of the tables above
come as 400, 401 or 404 with the same text. See [management](management.md).

## The broker does not start

`ConfigError`: a setting that cannot be used. One line on standard error names the place, the key
and what is allowed; the exit code is 2. Other failures of a command have exit code 1.

## Storage fails

`StoreError`: what is stored cannot be read, or cannot be written any more. A running broker
confirms nothing more, disconnects its clients with 320 and exits with 1; what was confirmed is
safe. A command that looks after a data directory says what is wrong in one line and exits with 1.
See
[operations](operations.md).

## A selector is wrong

`SelectorError`: a tag expression or an SQL condition that chooses messages of a topic cannot be
understood. The text names the column and what is expected there; nothing was subscribed. RocketMQ
clients get code 23, `SUBSCRIPTION_PARSE_FAILED`.

## A command fails

`CommandFailed`: a command that talks to a broker failed: no broker, a
refused password, no such queue. One line on standard error says what to do; the exit code is 1.
See [troubleshooting](troubleshooting.md#a-command-fails).

## A bug

What is not on this page is a bug of the broker: the client gets 541 `INTERNAL_ERROR`, the log has
the trace.
"""


def below(base: type[errors.BrokerError]) -> list[type[errors.BrokerError]]:
    """All classes under one, parents first."""
    return [each for one in base.__subclasses__() for each in (one, *below(one))]


def error_rows(base: type[errors.BrokerError]) -> list[str]:
    found = sorted(
        below(base), key=lambda error: row_of(amqp.REPLY_CODES, error, amqp.INTERNAL_ERROR)[0]
    )
    rows = []
    for error in found:
        when, cure = ADVICE[error.__name__]
        code, name = row_of(amqp.REPLY_CODES, error, amqp.INTERNAL_ERROR)
        status, _ = row_of(http.STATUS, error, http.INTERNAL_ERROR)
        response = row_of(remoting.CODES, error, ResponseCode.SYSTEM_ERROR)
        codes = f"`{row_of(native.CODES, error, 'internal')}` | {status} | {response}"
        rows.append(f"| {code} | `{name}` | `{error.__name__}` | {codes} | {when} | {cure} |\n")
    return rows


def errors_page() -> str:
    parts = [ERRORS_INTRODUCTION, CHANNEL_ERRORS, ERRORS_HEADER, *error_rows(errors.ChannelError)]
    parts += [CONNECTION_ERRORS, ERRORS_HEADER, *error_rows(errors.FatalError), ERRORS_END]
    return "".join(parts)


PAGES = {"configuration.md": configuration_page, "errors.md": errors_page}


def main(check: bool) -> int:
    stale = 0
    for name, render in PAGES.items():
        page = DOCS / name
        wanted = render()
        if page.is_file() and page.read_text(encoding="utf-8") == wanted:
            continue
        if check:
            print(f"docs/{name} differs from the code: run `make docs`", file=sys.stderr)
            stale = 1
        else:
            page.parent.mkdir(exist_ok=True)
            page.write_text(wanted, encoding="utf-8")
            print(f"docs/{name} written")
    return stale


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
