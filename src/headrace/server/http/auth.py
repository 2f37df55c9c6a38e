"""Who asks: HTTP Basic, checked against the broker's users; and whether they may."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

from headrace.core.access.user import User
from headrace.core.broker import Broker
from headrace.errors import LoginLocked, LoginRefused
from headrace.server.http import replies
from headrace.server.http.router import ENTER, AccessRule, has_tag

NOBODY = User("")


def credentials(header: str) -> tuple[str, str]:
    """Name and password of an Authorization header."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        raise LoginRefused("Login failed: only Basic is understood")
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode("utf-8", "surrogateescape")
    except (binascii.Error, ValueError):
        raise LoginRefused("Login failed: the header cannot be read") from None
    name, _, password = text.partition(":")
    return name, password


async def login(broker: Broker, name: str, password: str, peer: str) -> User:
    """The user, or LoginRefused; whoever guesses is held back by the broker's users."""
    try:
        return await broker.users.authenticate(name, password, peer)
    except LoginLocked:
        raise
    except LoginRefused:
        raise LoginRefused("Login failed") from None


def permit(rule: AccessRule, user: User, params: Mapping[str, str], broker: Broker) -> None:
    """Raise unless the rule lets the user in."""
    if rule.tag is None:
        return
    if not has_tag(user.tags, rule.tag):
        raise replies.not_authorised(f"Not {rule.tag} user")
    if rule.vhost is None:
        return
    name = params["vhost"]
    if name not in broker.vhosts:
        raise replies.not_found()
    sees_all = rule.vhost != ENTER and has_tag(user.tags, "monitoring")
    if not sees_all and name not in user.permissions:
        raise replies.not_authorised("User not authorised to access virtual host")
