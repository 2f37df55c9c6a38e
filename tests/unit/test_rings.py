"""Rings of imports, also under TYPE_CHECKING: modules that can only be understood together."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import headrace

ROOT = Path(headrace.__file__).parent
LARGEST = 5  # modules of one ring

# Larger rings that are known, by a module in them. The sizes may only fall.
ALLOWED = {
    "headrace.server.amqp.session": 8,
    "headrace.server.native.session": 11,
}


def module_name(path: Path) -> str:
    parts = ("headrace", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Those that run at import, and those that only type checkers read."""
    for one in body:
        yield one
        if isinstance(one, ast.If):
            yield from statements(one.body + one.orelse)
        elif isinstance(one, ast.Try):
            yield from statements(one.body)


def imports(path: Path, modules: frozenset[str]) -> set[str]:
    found: set[str] = set()
    for one in statements(ast.parse(path.read_text("utf-8")).body):
        if isinstance(one, ast.Import):
            found |= {alias.name for alias in one.names}
        elif isinstance(one, ast.ImportFrom) and one.module:
            inner = {f"{one.module}.{alias.name}" for alias in one.names}
            found |= (inner & modules) or {one.module}
    return found & modules


def rings(graph: dict[str, set[str]]) -> list[set[str]]:
    """Strongly connected parts of more than one module (Tarjan's algorithm)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(name: str) -> None:
        number[name] = low[name] = len(number)
        stack.append(name)
        for target in graph[name]:
            if target not in number:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], number[target])
        if low[name] == number[name]:
            start = stack.index(name)
            ring = set(stack[start:])
            del stack[start:]
            if len(ring) > 1:
                found.append(ring)

    for name in graph:
        if name not in number:
            visit(name)
    return found


def import_graph() -> dict[str, set[str]]:
    paths = {module_name(path): path for path in ROOT.rglob("*.py")}
    modules = frozenset(paths)
    graph = {name: imports(path, modules) - {name} for name, path in paths.items()}
    graph["headrace"].discard("headrace.server.embedded")  # a name for users, as in the contracts
    return graph


def test_a_ring_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": set[str]()}
    assert rings(graph) == [{"a", "b", "c"}]


def test_no_ring_of_imports_is_large() -> None:
    large = [ring for ring in rings(import_graph()) if len(ring) > LARGEST]
    known = {name: ring for ring in large for name in ALLOWED if name in ring}
    unknown = [sorted(ring) for ring in large if ring not in known.values()]
    assert not unknown, f"rings of more than {LARGEST} modules: {unknown}"
    grown = {name: len(ring) for name, ring in known.items() if len(ring) > ALLOWED[name]}
    assert not grown, f"rings that grew: {grown}"
