"""Users, their permissions and limits: kept, listed, changed, and logged in.

Whatever changes is on its way to the disk when a call returns, is written to the audit log, and
reaches the open connections of the user at once through ``on_change``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol, TypeVar

from headrace.core.access import audit
from headrace.core.access.limits import USER_LIMITS, VHOST_LIMITS, checked_limit
from headrace.core.access.login import LoginPool, LoginService
from headrace.core.access.request_secrets import RequestSecrets
from headrace.core.access.user import User, is_loopback
from headrace.core.storage import Storage
from headrace.errors import LoginRefused, NotFound, PreconditionFailed
from headrace.model.passwords import NO_PASSWORD, SHA256, PasswordHash
from headrace.model.permissions import (
    Permissions,
    TopicPermissions,
    check_patterns,
    expanded,
)
from headrace.store.api.metadata import Declarations
from headrace.store.api.rows import (
    PermissionRow,
    TopicPermissionRow,
    UserLimitsRow,
    UserRow,
    VhostLimitsRow,
)

logger = logging.getLogger(__name__)
K = TypeVar("K", bound=tuple[str, ...])
R = TypeVar("R", PermissionRow, TopicPermissionRow)

ADMINISTRATOR = "administrator"
MAX_NAME = 255
_NOBODY = ""  # whose places in the pool administrative work takes


class LimitedVhost(Protocol):
    """A vhost, as far as it matters here."""

    limits: dict[str, int]


@dataclass(frozen=True, slots=True)
class Account:
    """A user as it is kept."""

    name: str
    password: PasswordHash = NO_PASSWORD
    tags: tuple[str, ...] = ()

    @property
    def password_hash(self) -> str:
        """As RabbitMQ's API shows it; "" when no password opens the account."""
        return self.password.text

    @property
    def hashing_algorithm(self) -> str:
        return self.password.algorithm


class Users:
    """All users of a broker. Methods are called on the event loop."""

    def __init__(
        self,
        storage: Storage,
        vhosts: Mapping[str, LimitedVhost],
        on_change: Callable[[str], None] = lambda name: None,
        *,
        loopback_users: Collection[str] = ("guest",),
    ) -> None:
        self.loopback_users = frozenset(loopback_users)
        self.strict_topics = False
        self._on_change = on_change
        self._storage = storage
        self._vhosts = vhosts
        self._accounts: dict[str, Account] = {}
        self._permissions: dict[tuple[str, str], PermissionRow] = {}  # by user and vhost
        self._topics: dict[tuple[str, str, str], TopicPermissionRow] = {}  # and exchange
        self._is_damaged = self._topics_lost = False
        self._user_limits: dict[str, dict[str, int]] = {}
        self._present: dict[str, User] = {}  # users as they are now, made when asked for
        self._pool = LoginPool()
        self.logins = LoginService(self._pool)
        self.secrets = RequestSecrets(storage, self.logins)

    # -- users ----------------------------------------------------------------------------------

    def list_users(self) -> list[Account]:
        return [self._accounts[name] for name in sorted(self._accounts)]

    def find_user(self, name: str) -> Account | None:
        return self._accounts.get(name)

    def get_user(self, name: str) -> Account:
        account = self._accounts.get(name)
        if account is None:
            raise NotFound(f"no user '{name}'")
        return account

    async def put_user(
        self,
        name: str,
        *,
        password: str | None = None,
        password_hash: str | None = None,
        hashing: str = SHA256,
        tags: Iterable[str] = (),
    ) -> bool:
        """Make a user or change it; True when it is new.

        Without password and hash an existing user keeps the password, and a new one has none (it
        logs in with a certificate). The hash "" takes the password away.
        """
        _check_name(name)
        if password is not None and password_hash is not None:
            raise PreconditionFailed("either password or password_hash can be given, not both")
        kept = None
        if password is not None:
            kept = await self.hash(password)
        elif password_hash is not None:
            kept = PasswordHash.imported(hashing, password_hash)
        created = self.store_user(name, kept, tags)
        if password is not None and kept is not None:
            self.logins.remember(kept, password)
        return created

    async def hash(self, password: str) -> PasswordHash:
        """A password's hash, made in the pool."""
        if not password:
            raise PreconditionFailed("invalid password: it must not be empty")
        return await self._pool.run(_NOBODY, lambda: PasswordHash.of(password))

    def store_user(self, name: str, password: PasswordHash | None, tags: Iterable[str]) -> bool:
        """Make a user or change it, with a hash made before; None keeps the one there is."""
        _check_name(name)
        before = self._accounts.get(name)
        chosen = _checked_tags(tags)
        kept = password or (before.password if before is not None else NO_PASSWORD)
        self._keep(Account(name, kept, chosen))
        audit.record(
            "user created" if before is None else "user changed",
            user=name,
            tags=",".join(chosen),
            new_password=password is not None,
        )
        if password is not None:
            self.logins.guard.forgive(name)
        self._changed(name)
        return before is None

    def delete_user(self, name: str) -> None:
        """Remove the user with its permissions and limits; its connections are closed."""
        account = self.get_user(name)
        del self._accounts[name]
        _forget(self._permissions, 0, name)
        _forget(self._topics, 0, name)
        self._user_limits.pop(name, None)
        self.secrets.forget(name)
        self._storage.delete(_user_row(account))
        audit.record("user deleted", user=name)
        self._changed(name)

    def _keep(self, account: Account) -> None:
        self._accounts[account.name] = account
        self._storage.save(_user_row(account))

    # -- permissions ----------------------------------------------------------------------------

    def permissions(self, user: str | None = None, vhost: str | None = None) -> list[PermissionRow]:
        """Those of a user, of a vhost, of both, or all."""
        found = _matching(self._permissions.values(), user, vhost)
        return sorted(found, key=attrgetter("user", "vhost"))

    def set_permissions(self, user: str, vhost: str, configure: str, write: str, read: str) -> bool:
        """Give rights in a vhost; True when the user had none there."""
        self._check_both(user, vhost)
        row = PermissionRow(user, vhost, configure, write, read)
        check_patterns(configure, write, read)
        is_new = (user, vhost) not in self._permissions
        self._permissions[user, vhost] = row
        self._storage.save(row)
        audit.record("permissions set", user=user, vhost=vhost,
                     configure=configure, write=write, read=read)  # fmt: skip
        self._changed(user)
        return is_new

    def clear_permissions(self, user: str, vhost: str) -> None:
        """The user may not enter the vhost any more; connections there are closed."""
        self._check_both(user, vhost)
        row = self._permissions.pop((user, vhost), None)
        if row is None:
            raise NotFound(f"user '{user}' has no permissions in vhost '{vhost}'")
        self._storage.delete(row)
        audit.record("permissions cleared", user=user, vhost=vhost)
        self._changed(user)

    def topic_permissions(
        self, user: str | None = None, vhost: str | None = None
    ) -> list[TopicPermissionRow]:
        found = _matching(self._topics.values(), user, vhost)
        return sorted(found, key=attrgetter("user", "vhost", "exchange"))

    def set_topic_permissions(
        self, user: str, vhost: str, exchange: str, write: str, read: str
    ) -> bool:
        """Restrict the routing keys of a topic exchange; True when there was no restriction."""
        self._check_both(user, vhost)
        row = TopicPermissionRow(user, vhost, exchange, write, read)
        check_patterns(expanded(write, user, vhost), expanded(read, user, vhost))
        is_new = (user, vhost, exchange) not in self._topics
        self._topics[user, vhost, exchange] = row
        self._storage.save(row)
        audit.record("topic permissions set", user=user, vhost=vhost,
                     exchange=exchange, write=write, read=read)  # fmt: skip
        self._changed(user)
        return is_new

    def clear_topic_permissions(self, user: str, vhost: str, exchange: str | None = None) -> None:
        """Lift the restriction of one exchange, or of all in the vhost."""
        self._check_both(user, vhost)
        for row in self.topic_permissions(user, vhost):
            if exchange in (None, row.exchange):
                del self._topics[user, vhost, row.exchange]
                self._storage.delete(row)
        audit.record("topic permissions cleared", user=user, vhost=vhost, exchange=exchange)
        self._changed(user)

    def _check_both(self, user: str, vhost: str) -> None:
        self.get_user(user)
        self._vhost(vhost)

    def _vhost(self, name: str) -> LimitedVhost:
        vhost = self._vhosts.get(name)
        if vhost is None:
            raise NotFound(f"no vhost '{name}'")
        return vhost

    # -- limits ---------------------------------------------------------------------------------

    def user_limits(self, user: str | None = None) -> Mapping[str, Mapping[str, int]]:
        """Limits by user, of those that have some."""
        return _some(self._user_limits, user)

    def set_user_limit(self, user: str, name: str, value: object) -> None:
        self.get_user(user)
        limits = self._user_limits.setdefault(user, {})
        limits[name] = checked_limit(name, value, USER_LIMITS)
        self._storage.save(UserLimitsRow(user, dict(limits)))
        audit.record("user limit set", user=user, limit=name, value=value)
        self._changed(user)

    def clear_user_limit(self, user: str, name: str) -> None:
        self.get_user(user)
        limits = self._user_limits.get(user, {})
        if limits.pop(name, None) is not None:
            self._storage.save(UserLimitsRow(user, dict(limits)))
        audit.record("user limit cleared", user=user, limit=name)
        self._changed(user)

    def vhost_limits(self, vhost: str | None = None) -> Mapping[str, Mapping[str, int]]:
        """Limits by vhost, of those that have some."""
        return _some({name: one.limits for name, one in self._vhosts.items()}, vhost)

    def set_vhost_limit(self, vhost: str, name: str, value: object) -> None:
        limits = self._vhost(vhost).limits
        limits[name] = checked_limit(name, value, VHOST_LIMITS)
        self._storage.save(VhostLimitsRow(vhost, dict(limits)))
        audit.record("vhost limit set", vhost=vhost, limit=name, value=value)

    def clear_vhost_limit(self, vhost: str, name: str) -> None:
        limits = self._vhost(vhost).limits
        if limits.pop(name, None) is not None:
            self._storage.save(VhostLimitsRow(vhost, dict(limits)))
        audit.record("vhost limit cleared", vhost=vhost, limit=name)

    # -- logging in -----------------------------------------------------------------------------

    async def authenticate(self, name: str, password: str, peer: str) -> User:
        """The user; LoginRefused (LoginLocked: not even looked at) when it is not welcome."""
        account = self._accounts.get(name)
        kept = account.password if account is not None and self._may_come(name, peer) else None
        better = await self.logins.check(name, password, peer, kept)
        present = self._accounts.get(name)
        if present is None or present.password not in (kept, better):
            raise LoginRefused("the user was changed during the login")
        if present.password != better:
            self._keep(Account(name, better, present.tags))
            audit.record("password hash upgraded", user=name, algorithm=better.algorithm)
        return self.user(name)

    def authenticate_certificate(self, name: str, peer: str) -> User:
        """The user that a verified certificate names; LoginRefused when there is none."""
        if name not in self._accounts or not self._may_come(name, peer):
            self.logins.counts.refused += 1
            raise LoginRefused(f"a certificate is not enough: no user {name!r} from {peer}")
        self.logins.counts.accepted += 1
        return self.user(name)

    def set_secret(self, name: str, secret: str | None) -> None:
        """What the user signs requests with; None takes it away."""
        self.get_user(name)
        self.secrets.set(name, secret)
        audit.record("secret cleared" if secret is None else "secret set", user=name)
        self._changed(name)

    def authenticate_signature(
        self, name: str, peer: str, is_signed_with: Callable[[str], bool]
    ) -> User:
        """The user who has signed; LoginRefused, also for who has no secret."""
        may_come = name in self._accounts and self._may_come(name, peer)
        self.secrets.prove(name, peer, is_signed_with, may_come=may_come)
        return self.user(name)

    def _may_come(self, name: str, peer: str) -> bool:
        return name not in self.loopback_users or is_loopback(peer)

    def user(self, name: str) -> User:
        """The user with its present rights; LoginRefused when it is gone."""
        user = self._present.get(name)
        if user is None:
            account = self._accounts.get(name)
            if account is None:
                raise LoginRefused(f"user '{name}' is deleted")
            user = self._present[name] = self._made(account)
        return user

    def find(self, name: str) -> User | None:
        """The same, or None."""
        return self.user(name) if name in self._accounts else None

    def _made(self, account: Account) -> User:
        name = account.name
        return User(
            name,
            frozenset(account.tags),
            {
                row.vhost: Permissions(row.configure, row.write, row.read)
                for row in self.permissions(name)
            },
            {
                (row.vhost, row.exchange): _topic_permissions(row)
                for row in self.topic_permissions(name)
            },
            dict(self._user_limits.get(name, {})),
            self.strict_topics,
            self._topics_lost,
        )

    def _changed(self, name: str) -> None:
        self._present.pop(name, None)
        self._on_change(name)

    # -- life -----------------------------------------------------------------------------------

    def restore(self, catalogue: Declarations) -> None:
        """What was kept before a restart."""
        for user in catalogue.users:
            kept = PasswordHash.read(user.password_hash)
            self._accounts[user.name] = Account(user.name, kept, user.tags)
        for secret in catalogue.secrets:
            self.secrets.restore(secret)
        for row in catalogue.permissions:
            self._permissions[row.user, row.vhost] = row
        for topic in catalogue.topic_permissions:
            self._topics[topic.user, topic.vhost, topic.exchange] = topic
        # They take rights away, and whose they were cannot be known.
        self._is_damaged = bool(catalogue.damaged)
        self._topics_lost = any(
            one.table == "topic_permissions" and not one.is_dangling for one in catalogue.damaged
        )
        for user_limits in catalogue.user_limits:
            self._user_limits[user_limits.user] = dict(user_limits.limits)
        for vhost_limits in catalogue.vhost_limits:
            self._vhosts[vhost_limits.vhost].limits.update(vhost_limits.limits)

    def ensure_default_user(self, name: str, password: str) -> None:
        """The first user, who may do everything; nothing happens when there are users, or when
        they are kept aside because they are damaged.

        Blocks while it hashes: for the time before the doors open.
        """
        if self._accounts:
            return
        if self._is_damaged:
            logger.critical(
                "no user can be read, so no client can log in: stop the broker and run `headrace "
                "fsck --repair`, or start it with --load-definitions and a file that has a user"
            )
            return
        kept = PasswordHash.of(password)
        self.store_user(name, kept, (ADMINISTRATOR,))
        self.logins.remember(kept, password)
        for vhost in self._vhosts:
            self.set_permissions(name, vhost, ".*", ".*", ".*")

    def forget_vhost(self, vhost: str) -> None:
        """The vhost is gone, and with it what was allowed in it."""
        _forget(self._permissions, 1, vhost)
        _forget(self._topics, 1, vhost)
        self._present.clear()

    def close(self) -> None:
        self._pool.close()


def _user_row(account: Account) -> UserRow:
    return UserRow(account.name, account.password.stored, account.tags)


def _topic_permissions(row: TopicPermissionRow) -> TopicPermissions:
    return TopicPermissions(
        expanded(row.write, row.user, row.vhost), expanded(row.read, row.user, row.vhost)
    )


def _forget(kept: dict[K, R], part: int, name: str) -> None:
    """Drop what has the name in this part of its key."""
    for key in [key for key in kept if key[part] == name]:
        del kept[key]


def _matching(rows: Iterable[R], user: str | None, vhost: str | None) -> list[R]:
    return [one for one in rows if user in (None, one.user) and vhost in (None, one.vhost)]


def _some(
    limits: Mapping[str, Mapping[str, int]], wanted: str | None
) -> Mapping[str, Mapping[str, int]]:
    return {name: dict(one) for name, one in sorted(limits.items())
            if one and wanted in (None, name)}  # fmt: skip


def _check_name(name: str) -> None:
    if not name or len(name.encode("utf-8", "surrogateescape")) > MAX_NAME:
        raise PreconditionFailed(f"invalid user name: expected 1 to {MAX_NAME} bytes")


def _checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    chosen = tuple(dict.fromkeys(tag.strip() for tag in tags))
    if "" in chosen or any(len(tag) > MAX_NAME or "," in tag for tag in chosen):
        raise PreconditionFailed("invalid tag: expected a word without a comma")
    return chosen
