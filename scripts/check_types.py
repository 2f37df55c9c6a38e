"""Check the documented code of the RocketMQ SDK with mypy --strict and pyright.

Programs with a listener of the wrong type must fail with both. Run by `make check`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
HEAD = """\
from headrace.rocketmq import (ConcurrentConsumer, ConsumeContext, ConsumerConfig, ConsumeResult,
    MessageExt, MessageListener)

consumer = ConcurrentConsumer(ConsumerConfig("g", "127.0.0.1:9876"))
"""
WRONG = {
    "no_result": """
def listen(messages: list[MessageExt]) -> None: ...
consumer.register_message_listener(listen)
""",
    "text_result": """
async def listen(messages: list[MessageExt]) -> str: return "SUCCESS"
consumer.register_message_listener(listen)
""",
    "one_message": """
def listen(message: MessageExt) -> ConsumeResult: return ConsumeResult.SUCCESS
consumer.register_message_listener(listen)
""",
    "three_parameters": """
def listen(messages: list[MessageExt], context: ConsumeContext, more: int) -> ConsumeResult:
    return ConsumeResult.SUCCESS
consumer.register_message_listener(listen)
""",
    "class_with_wrong_result": """
class Own(MessageListener):
    def consume_message(self, messages: list[MessageExt]) -> bool: return True
""",
    "a_class": """
class Own(MessageListener):
    def consume_message(self, messages: list[MessageExt]) -> ConsumeResult:
        return ConsumeResult.SUCCESS
consumer.register_message_listener(Own)
""",
}


def write_programs(directory: Path) -> None:
    """The blocks of the pages in `right`, one file each; the wrong programs in `wrong`."""
    for name in ("right", "wrong"):
        (directory / name).mkdir()
    for page in sorted((ROOT / "docs").glob("rocketmq-*.md")):
        text = page.read_text("utf-8")
        for found in BLOCK.finditer(text):
            line = text.count("\n", 0, found.start()) + 2
            target = directory / "right" / f"{page.stem.replace('-', '_')}_line_{line}.py"
            target.write_text(found[1], "utf-8")
    for name, code in WRONG.items():
        (directory / "wrong" / f"{name}.py").write_text(HEAD + code, "utf-8")


def mypy(directory: Path) -> str:
    cache = ROOT / ".mypy_cache" / "documented"
    options = ["--strict", "--config-file=", f"--cache-dir={cache}", "--no-error-summary"]
    options += ["--no-pretty", "--scripts-are-modules"]
    return output([BIN / "mypy", *options, directory], directory)


def pyright(directory: Path) -> str:
    return output([BIN / "pyright", "--pythonpath", sys.executable, directory], directory)


def output(command: list[Path | str], directory: Path) -> str:
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        sys.exit(f"check_types: {command[0]} failed: {done.stdout}{done.stderr}")
    return done.stdout


def main() -> int:
    checkers = [mypy]
    if shutil.which("node"):
        checkers.append(pyright)
    elif os.environ.get("CI"):
        sys.exit("check_types: pyright needs Node.js")
    else:
        print("check_types: Node.js is not installed, so pyright is left out")
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        write_programs(directory)
        for check in checkers:
            found = check(directory / "right")
            if "error" in found.replace("0 errors", ""):
                problems.append(f"{check.__name__}: documented code has errors:\n{found}")
            found = check(directory / "wrong")
            problems += [
                f"{check.__name__}: the wrong program {name} has no error"
                for name in WRONG
                if not re.search(rf"{name}\.py:.*error", found)
            ]
    print("\n".join(problems) or f"check_types: {len(WRONG)} wrong programs found")
    return len(problems) > 0


if __name__ == "__main__":
    sys.exit(main())
