"""Topic routing: binding keys are patterns over words, kept in a trie that is walked as an NFA.

`*` stands for exactly one word (the empty word too), `#` for any number of words, none included.
A key is split on dots; the empty key has no words at all. `*` and `#` in a routing key are plain.

    bindings  a.b  a.*  a.#.c    root --a--> + --b--> (a.b)
                                             + --*--> (a.*)
                                             + --#--> + --c--> (a.#.c)

All patterns advance together, one word at a time, so the cost of a match is bounded by words
times trie nodes, whatever the patterns are; there is no backtracking to blow up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar, Generic, TypeVar

from headrace.model.routing.direct import BoundTargets

T = TypeVar("T")


class _TrieNode(Generic[T]):
    """The end of a pattern prefix; `rest` is where a `#` after that prefix leads."""

    __slots__ = ("one", "rest", "targets", "words")

    def __init__(self) -> None:
        self.words: dict[str, _TrieNode[T]] = {}
        self.one: _TrieNode[T] | None = None
        self.rest: _TrieNode[T] | None = None
        self.targets: BoundTargets[T] = BoundTargets()

    def child(self, word: str) -> _TrieNode[T] | None:
        if word == "*":
            return self.one
        if word == "#":
            return self.rest
        return self.words.get(word)

    def grow(self, word: str) -> _TrieNode[T]:
        node = self.child(word)
        if node is None:
            node = _TrieNode()
            if word == "*":
                self.one = node
            elif word == "#":
                self.rest = node
            else:
                self.words[word] = node
        return node

    def cut(self, word: str) -> None:
        if word == "*":
            self.one = None
        elif word == "#":
            self.rest = None
        else:
            del self.words[word]

    def is_bare(self) -> bool:
        return not (self.targets or self.words or self.one or self.rest)


class TopicRouter(Generic[T]):
    """Matching looks at the patterns that still fit, never at all bindings."""

    kind: ClassVar[str] = "topic"
    by_headers: ClassVar[bool] = False
    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root: _TrieNode[T] = _TrieNode()

    def bind(self, key: str, arguments: Mapping[str, object], target: T) -> None:
        node = self._root
        for word in _words(key):
            node = node.grow(word)
        node.targets.bind(target)

    def unbind(self, key: str, arguments: Mapping[str, object], target: T) -> None:
        path: list[tuple[_TrieNode[T], str]] = []
        node = self._root
        for word in _words(key):
            path.append((node, word))
            child = node.child(word)
            if child is None:
                raise KeyError(key)
            node = child
        node.targets.unbind(target)
        while path and node.is_bare():
            node, word = path.pop()
            node.cut(word)

    def match(self, key: str, headers: Mapping[str, object]) -> Collection[T]:
        hits: list[dict[T, int]] = []
        lasting: list[_TrieNode[T]] = []  # nodes behind a `#`: in play for every later word
        opened: set[_TrieNode[T]] = set()
        states = [self._root]
        if self._root.rest is not None:
            _open(self._root.rest, opened, hits, lasting)
        for word in key.split(".") if key else ():
            active = states + lasting if lasting else states
            states = []
            for node in active:
                child = node.words.get(word)
                if child is not None:
                    states.append(child)
                    if child.rest is not None:
                        _open(child.rest, opened, hits, lasting)
                child = node.one
                if child is not None:
                    states.append(child)
                    if child.rest is not None:
                        _open(child.rest, opened, hits, lasting)
            if not states and not lasting:
                break
        return _union(states, hits)


def _union(ends: list[_TrieNode[T]], hits: list[dict[T, int]]) -> tuple[T, ...]:
    """The targets of the nodes reached with the last word, and of those that matched before."""
    for node in ends:
        if node.targets:
            hits.append(node.targets)
    if not hits:
        return ()
    if len(hits) == 1:
        return tuple(hits[0])
    return tuple({target: None for targets in hits for target in targets})


def _open(
    node: _TrieNode[T] | None,
    opened: set[_TrieNode[T]],
    hits: list[dict[T, int]],
    lasting: list[_TrieNode[T]],
) -> None:
    """Enter a `#` node: its own targets match at once, whatever words follow.

    Only such nodes can be reached a second time (the trie is a tree, and only `#` keeps its
    place), so remembering them is enough to visit every node at most once per word.
    """
    while node is not None and node not in opened:
        opened.add(node)
        if node.targets:
            hits.append(node.targets)
        if node.words or node.one is not None:
            lasting.append(node)
        node = node.rest


def _words(key: str) -> list[str]:
    return key.split(".") if key else []


class TagRouter(TopicRouter[T]):
    """Routing of a topic's own bindings: the tags are the routing key, and are not checked."""

    kind: ClassVar[str] = "x-topic"
