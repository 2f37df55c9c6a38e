"""The local copy of a shard's files: brought up to date by commits, thrown away when in doubt.

A marker says which commit the directory is a copy of. It names the boot of the machine, because the
copy is never synced, and it is removed, synced, before an owner writes: what a killed owner leaves
has bytes in it that were never committed. Only a directory that says it is a cache is ever cleared:
another may be the data directory of a broker, or all that is left of lost commits.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import ExitStack
from pathlib import Path

from headrace.errors import ConfigError, StoreError
from headrace.model.shard_ownership import ShardRow
from headrace.store.data_directory import CACHE_LABEL as LABEL
from headrace.store.data_directory import lock_directory
from headrace.store.disk import make_directory, sync_directory
from headrace.store.shared.database import ShardDatabase, ShardFile, ShardSnapshot

MARKER = "shard-commit"
_KEPT = frozenset(("lock", LABEL, MARKER))  # not of the shard


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class ShardCache:
    """A data directory that mirrors the shard."""

    def __init__(self, directory: Path, shard: str) -> None:
        self._directory = directory
        self._shard = shard
        self.locks = ExitStack()  # no other process uses the directory meanwhile
        make_directory(directory)
        try:
            lock_directory(directory, self.locks, create=True)
            self._check_label()
        except BlockingIOError:
            self.locks.close()
            raise ConfigError(f"{directory} is in use by another broker") from None
        except ConfigError:
            self.locks.close()
            raise
        self.row = ShardRow(-1, -1)
        self.files: dict[str, ShardFile] = {}
        if not self._read_marker():
            self._clear()

    def _check_label(self) -> None:
        label = self._directory / LABEL
        if label.exists():
            if (found := label.read_text()) != self._shard:
                raise ConfigError(f"{self._directory} is the cache of shard '{found}'")
        elif {entry.name for entry in self._directory.iterdir()} - _KEPT:
            raise ConfigError(
                f"{self._directory} is not empty and not the cache of a shard: choose another "
                "directory, or copy it into a new shard with `headrace share adopt`"
            )
        else:
            label.write_text(self._shard)

    def remove_label(self) -> None:
        """It is more than a copy from now on: it is not cleared by the next start."""
        (self._directory / LABEL).unlink(missing_ok=True)
        sync_directory(self._directory)

    def _read_marker(self) -> bool:
        try:
            found = json.loads((self._directory / MARKER).read_text())
            if found["boot"] != boot_id() or found["shard"] != self._shard:
                return False
            self.row = ShardRow(*found["row"])
            self.files = {name: ShardFile(*one) for name, one in found["files"].items()}
        except (OSError, ValueError, KeyError, TypeError):
            return False
        return True

    def _clear(self) -> None:
        for entry in self._directory.iterdir():
            if entry.name in _KEPT - {MARKER}:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def update(self, database: ShardDatabase, taken: ShardRow | None = None) -> bool:
        """Copy what has changed; False when the database does not show ``taken`` yet."""
        with database.snapshot(taken) as snapshot:
            if snapshot is None:
                return False
            if self.row.epoch >= 0 and snapshot.is_behind(self.row):
                raise StoreError(
                    f"the database lost commits: it is at {snapshot.row}, {self._directory} has "
                    f"the files of {self.row}. Nothing was changed; to continue with what "
                    "the database has, move that directory away"
                )
            if snapshot.row.seq != self.row.seq or snapshot.row.epoch != self.row.epoch:
                self._apply(snapshot)
            self.row = snapshot.row
        return True

    def _apply(self, snapshot: ShardSnapshot) -> None:
        files = dict(snapshot.files())
        changed = snapshot.changed_since(self.row.seq)
        for path in self._directory.rglob("*"):  # also what an update that failed has left
            name = str(path.relative_to(self._directory))
            if path.is_file() and name not in files and name not in _KEPT:
                path.unlink()
        for name, file in files.items():
            known = self.files.get(name)
            is_known = known is not None and known.generation == file.generation
            if is_known and name not in changed and known == file:
                continue
            since = self.row.seq if is_known else -1
            self._write(snapshot, name, file, since=since)
        self.files = files

    def _write(self, snapshot: ShardSnapshot, name: str, file: ShardFile, *, since: int) -> None:
        path = self._directory / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | (os.O_TRUNC if since < 0 else 0)
        fd = os.open(path, flags, 0o600)
        try:
            end = file.size
            for at, data in snapshot.blocks(name, file.generation, since=since):
                os.pwrite(fd, data, at)
                end = max(end, at + len(data))
            if since < 0 or file.size != self.files[name].size:  # else it grows with its blocks
                os.ftruncate(fd, end)
        finally:
            os.close(fd)

    def save_marker(self) -> None:
        """The directory is a copy of the commit that was copied last."""
        marker = {"boot": boot_id(), "shard": self._shard, "row": self.row, "files": self.files}
        new = self._directory / f"{MARKER}.new"
        new.write_text(json.dumps(marker))
        new.replace(self._directory / MARKER)

    def remove_marker(self) -> None:
        """Before the first write of an owner."""
        (self._directory / MARKER).unlink(missing_ok=True)
        sync_directory(self._directory)
