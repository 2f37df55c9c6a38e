"""Griffe extension of mkdocs.yml: the calls of the client's channels, documented as methods.

`queue_declare = _blocking(ChannelCore.queue_declare)` has the parameters and the docstring of the
method that builds its request, and returns the result of that request.
"""

from __future__ import annotations

from typing import Any

import griffe

CORE = "client.core.channel_core.ChannelCore"
CHANNELS = {"client.channel.Channel": set[str](), "client.aio.channel.Channel": {"async"}}


class ChannelDocs(griffe.Extension):
    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:  # noqa: ANN401 - as in the base
        for path, labels in CHANNELS.items():
            members = pkg[path].members
            for name, builder in pkg[CORE].members.items():
                if name in members and name[0] != "_" and members[name].is_attribute:
                    members[name] = _method(members[name], builder, labels)


def _method(made: griffe.Object, builder: griffe.Function, labels: set[str]) -> griffe.Function:
    request = builder.returns
    if isinstance(request, griffe.ExprBinOp):  # None: nothing has to be sent
        request = request.left
    assert isinstance(request, griffe.ExprSubscript)
    found = griffe.Function(
        builder.name,
        parameters=builder.parameters,
        returns=request.slice,
        docstring=builder.docstring,
        lineno=made.lineno,
        endlineno=made.endlineno,
        parent=made.parent,
    )
    found.labels |= labels
    return found
