"""The docs say what is true: examples print what they show, nothing is missing, no link is dead."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

import headrace
from headrace import config, errors
from headrace.cli.main import COMMANDS
from headrace.cli.main import headrace as command
from headrace.client import ConnectionFactory
from headrace.model import policy
from headrace.testing import wait_for
from support import doc_pages
from support.brokers import Broker
from support.doc_terminals import Terminals

PACKAGE = Path(headrace.__file__).parent
# The Chinese README has the same blocks as the English one; another test sees to that.
WITH_EXAMPLES = [
    page
    for page in doc_pages.all_pages()
    if page != doc_pages.CHINESE and list(doc_pages.examples(page))
]


WITH_PROGRAMS = [page for page in doc_pages.all_pages() if doc_pages.scenes(page)]
TUTORIALS = sorted((doc_pages.DOCS / "tutorials").glob("*.md"))


def is_banner(block: doc_pages.Block) -> bool:
    return block.language == "text" and block.text.startswith("Headrace ")


WITH_BANNER = [
    page for page in doc_pages.all_pages() if any(map(is_banner, doc_pages.blocks(page)))
]


def everything() -> str:
    return "\n".join(page.read_text("utf-8") for page in doc_pages.all_pages())


# -- examples ------------------------------------------------------------------------------------


@pytest.mark.timeout(400)  # one of them starts Spark
@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=doc_pages.title)
def test_examples_print_what_the_page_shows(
    page: Path, tmp_path: Path, start_broker: Callable[..., Broker]
) -> None:
    broker = start(page, tmp_path, start_broker)
    for example in doc_pages.examples(page):
        if "pyspark" in example.code and shutil.which("java") is None and not os.environ.get("CI"):
            continue
        code = redirect(example.code, broker.ports)
        if example.is_shell:
            printed = run_shell(code, tmp_path, broker)
        else:
            printed = run([sys.executable, "-c", code], tmp_path)
        where = f"{doc_pages.title(page)}:{example.line}"
        assert doc_pages.pattern(example.output).fullmatch(printed.strip()), (
            f"{where} printed:\n{printed}\nbut the page says:\n{example.output}"
        )


@pytest.mark.parametrize("page", WITH_PROGRAMS, ids=doc_pages.title)
def test_programs_in_several_terminals_print_what_the_page_shows(
    page: Path, tmp_path: Path, start_broker: Callable[..., Broker]
) -> None:
    broker = start(page, tmp_path, start_broker)
    for scene in doc_pages.scenes(page):
        terminals = Terminals(tmp_path, environment())
        try:
            for one in scene:
                terminals.play(one)
            terminals.check()
            wait_for(lambda: nothing_in_hand(broker))  # what was printed is acknowledged too
        finally:
            terminals.close()


def nothing_in_hand(broker: Broker) -> bool:
    with ConnectionFactory(port=broker.native_port).new_connection() as connection:
        rows = list(connection.create_channel().rows("queues"))
    return not any(row["messages_unacknowledged"] for row in rows)


@pytest.mark.parametrize("page", TUTORIALS, ids=doc_pages.title)
def test_every_program_of_a_tutorial_is_run_and_has_its_twin_on_pika(page: Path) -> None:
    files = {
        block.note.removeprefix("file: ")
        for block in doc_pages.blocks(page)
        if block.note.startswith("file: ")
    }
    native = {name for name in files if not name.startswith("pika_")}
    assert {f"pika_{name}" for name in native} == files - native
    assert {
        line[1] for scene in doc_pages.scenes(page) for one in scene for line in one.lines
    } == files


@pytest.mark.parametrize("page", WITH_BANNER, ids=doc_pages.title)
def test_banner_is_what_the_broker_prints(
    page: Path, tmp_path: Path, start_broker: Callable[..., Broker]
) -> None:
    broker = start(page, tmp_path, start_broker)
    printed = wait_for(lambda: "Ctrl-C" in broker.log() and broker.log())
    shown = [block.text for block in doc_pages.blocks(page) if is_banner(block)]
    assert {without_details(text) for text in shown} == {without_details(str(printed))}


def without_details(banner: str) -> str:
    """The banner without what differs from start to start."""
    banner = re.sub(r"(?m)^note: .*\n", "", banner)  # what this machine lacks
    banner = re.sub(r"after [\d.]+ s", "after SECONDS", banner.strip())
    banner = re.sub(r"(?m):\d+(/?)$", r":PORT\1", banner)
    return re.sub(r"(?m)^(  data +).*", r"\1DIRECTORY", banner)


def start(page: Path, directory: Path, start_broker: Callable[..., Broker]) -> Broker:
    """The page's own broker, after its files are written and its preparations made."""
    prepare(page, directory)
    names = doc_pages.flags(page)
    broker = start_broker(
        *(str(directory / one) if (directory / one).exists() else one for one in names)
    )
    for program in directory.glob("*.py"):
        program.write_text(redirect(program.read_text("utf-8"), broker.ports), "utf-8")
    return broker


def prepare(page: Path, directory: Path) -> None:
    for block in doc_pages.blocks(page):
        if block.note.startswith("file: "):
            (directory / block.note.removeprefix("file: ")).write_text(block.text, "utf-8")
        elif block.note == "setup":
            run(["sh", "-ec", block.text], directory)


def redirect(code: str, ports: dict[str, int]) -> str:
    """Pages name the default ports; the broker of a test has others."""
    code = code.replace(":5672", f":{ports['amqp']}")
    plain = r'ConnectionParameters\(\s*"127\.0\.0\.1"(?!, \d)'
    code = re.sub(plain, rf"\g<0>, {ports['amqp']}", code)
    code = code.replace("5671", str(ports.get("amqps", 5671)))
    code = code.replace("ConnectionFactory()", f"ConnectionFactory(port={ports['native']})")
    code = re.sub(r"\b9091\b", str(ports.get("native_tls", 9091)), code)
    code = re.sub(r"\b9876\b", str(ports.get("namesrv", 9876)), code)
    return re.sub(r"\b9090\b", str(ports.get("native", 9090)), code)


def environment() -> dict[str, str]:
    """As in an activated environment: Spark starts the `python3` of the PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "PATH": path}


def run(command_line: list[str], directory: Path) -> str:
    done = subprocess.run(
        command_line, cwd=directory, env=environment(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_shell(code: str, directory: Path, broker: Broker) -> str:
    """With `headrace` in the PATH, which finds the page's broker; ends of lines do not count."""
    program = directory / "bin" / "headrace"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m headrace "$@"\n')
    program.chmod(0o755)
    url = f"headrace://127.0.0.1:{broker.ports['native']}"
    http = f"http://127.0.0.1:{broker.ports['http']}"
    paths = f'PATH="{program.parent}:$PATH"\n'
    paths += f"export PATH HEADRACE_URL={url} HEADRACE_HTTP_URL={http}\n"
    printed = run(["sh", "-ec", paths + "exec 2>&1\n" + code], directory)
    return "\n".join(line.rstrip() for line in printed.splitlines())


@pytest.mark.parametrize("page", doc_pages.all_pages(), ids=doc_pages.title)
def test_python_blocks_are_python(page: Path) -> None:
    for block in doc_pages.blocks(page):
        if block.language == "python":
            ast.parse(block.text, f"{doc_pages.title(page)}:{block.line}")


# -- nothing is missing --------------------------------------------------------------------------


def commands(group: click.Group, path: str) -> dict[str, click.Command]:
    found: dict[str, click.Command] = {}
    for name in group.list_commands(click.Context(group)):
        one = group.get_command(click.Context(group), name)
        assert one is not None
        found[f"{path} {name}"] = one
        if isinstance(one, click.Group):
            found |= commands(one, f"{path} {name}")
    return found


def test_every_command_and_flag_is_documented() -> None:
    text = everything()
    wanted: list[str] = []
    for path, one in commands(command, "headrace").items():
        wanted.append(path)
        for option in one.params:
            wanted += [flag for flag in option.opts if flag.startswith("--")]
    assert [name for name in wanted if not _is_in(name, text)] == []


def test_every_setting_is_documented() -> None:
    text = everything()
    names = [name for one in config.options().values() for name in (one.name, one.env)]
    assert [name for name in names if not _is_in(name, text)] == []


def test_every_argument_and_header_is_documented() -> None:
    """Whatever looks like `x-...` in the code means something to clients."""
    text = everything()
    known = set()
    for folder in ("model", "core", "server"):
        for module in (PACKAGE / folder).rglob("*.py"):
            known |= set(re.findall(r'"(x-[a-z][a-z-]*[a-z])"', module.read_text("utf-8")))
    assert {"x-message-ttl", "x-match", "x-delay", "x-death", "x-priority"} <= known
    known.add("alternate-exchange")
    assert sorted(name for name in known if f"`{name}`" not in text) == []


def test_every_policy_key_is_documented() -> None:
    text = (doc_pages.DOCS / "policies.md").read_text("utf-8")
    keys = [*policy._LIKE_ARGUMENTS, "alternate-exchange", *policy._FREE]
    keys += [prefix + "*" for prefix in policy._FREE_PREFIXES]
    assert [key for key in keys if f"`{key}`" not in text] == []


def test_every_error_is_documented() -> None:
    text = (doc_pages.DOCS / "errors.md").read_text("utf-8")
    classes = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.BrokerError)
    ]
    assert len(classes) > 10
    assert [name for name in classes if f"`{name}`" not in text] == []


def _is_in(name: str, text: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None


# -- form ----------------------------------------------------------------------------------------


def test_both_readmes_have_the_same_skeleton() -> None:
    def skeleton(page: Path) -> list[int]:
        return [level for level, _ in doc_pages.headings(page)]

    def code(page: Path) -> list[tuple[str, str]]:
        return [(block.language, block.text) for block in doc_pages.blocks(page)]

    assert code(doc_pages.CHINESE) == code(doc_pages.README)
    assert skeleton(doc_pages.CHINESE) == skeleton(doc_pages.README)


@pytest.mark.parametrize("page", [doc_pages.README, doc_pages.CHINESE], ids=doc_pages.title)
def test_both_readmes_lead_to_a_page_that_names_every_command(page: Path) -> None:
    assert "docs/cli.md" in doc_pages.links(page)
    text = (doc_pages.DOCS / "cli.md").read_text("utf-8")
    assert [one for one in COMMANDS if f"`headrace {one}" not in text] == []


@pytest.mark.parametrize("page", [doc_pages.README, doc_pages.CHINESE], ids=doc_pages.title)
def test_readme_is_short(page: Path) -> None:
    assert len(page.read_text("utf-8").splitlines()) <= 150
    code = {example.line: example.code.count("\n") for example in doc_pages.examples(page)}
    assert all(lines <= 13 for lines in code.values()), code


@pytest.mark.parametrize("page", doc_pages.all_pages(), ids=doc_pages.title)
def test_links_lead_somewhere(page: Path) -> None:
    dead = []
    for link in doc_pages.links(page):
        if "://" in link:
            continue
        name, _, fragment = link.partition("#")
        target = page.parent / name if name else page
        anchors = (
            [doc_pages.anchor(text) for _, text in doc_pages.headings(target)] if fragment else []
        )
        if not target.exists() or (fragment and fragment not in anchors):
            dead.append(link)
    assert dead == []


def test_index_leads_to_every_page() -> None:
    index = doc_pages.DOCS / "index.md"
    linked = {
        (doc_pages.DOCS / link).resolve() for link in doc_pages.links(index) if "://" not in link
    }
    missing = [page for page in doc_pages.DOCS.rglob("*.md") if page not in linked | {index}]
    assert [doc_pages.title(page) for page in missing] == []


def test_every_test_named_for_a_fault_exists() -> None:
    named = re.findall(
        r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (doc_pages.DOCS / "fault-tests.md").read_text()
    )
    root = doc_pages.DOCS.parent
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not (root / file).is_file() or f"def {name}" not in (root / file).read_text("utf-8")
    ]
    assert len(named) > 100
    assert missing == []


@pytest.mark.parametrize("page", doc_pages.all_pages(), ids=doc_pages.title)
def test_a_page_begins_with_its_only_title(page: Path) -> None:
    levels = [level for level, _ in doc_pages.headings(page)]
    assert levels[0] == 1
    assert levels.count(1) == 1
