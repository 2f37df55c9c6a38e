"""Write the pages of docs/ that come from the code; with --check only say which are stale."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

from headrace import config

DOCS = Path(__file__).resolve().parent.parent / "docs"

INTRODUCTION = """\
# Configuration

<!-- Written by scripts/gen_docs.py from src/headrace/config.py; `make docs` renews it. -->

A broker needs no configuration: `headrace serve` listens on 127.0.0.1 and keeps everything in
`./headrace-data`. What you want different can be said in three places; the later one wins:

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

SECRETS = "\nA setting without a flag is a secret: command lines can be read by everybody.\n"


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


PAGES = {"configuration.md": configuration_page}


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
