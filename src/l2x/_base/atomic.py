"""Files that appear whole or not at all: they are written next to their target, then renamed."""

from __future__ import annotations

import glob
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from l2x.errors import InputError, WriteError

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be deleted anyway
    fcntl = None  # type: ignore[assignment]

# The suffix of temporary files; only files with this suffix are deleted.
SUFFIX = ".l2x-tmp"


def write_atomically(path: str | Path, content: bytes) -> Path:
    """Write a file as a whole and return its path; until then, an older file at `path` stays intact."""
    path = Path(path)
    with replacing(path) as file:
        file.write(content)
    return path


@contextmanager
def replacing(path: Path, *, folder: Path | None = None) -> Iterator[IO[bytes]]:
    """Yield a temporary file that replaces `path` if the block ends without error, and is deleted otherwise.

    The temporary file is in `folder`, by default that of `path`. A link stays a link: its target is replaced.
    """
    path = _target(path)
    file = _temporary(path, folder)
    claim = os.dup(file.fileno())  # keeps the lock until the file has replaced its target
    try:
        yield file
        file.flush()
        os.fsync(file.fileno())
        file.close()
        os.replace(file.name, path)
    except BaseException as error:
        file.close()
        Path(file.name).unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, WriteError):
            raise _cannot_write(path, error) from error
        raise
    finally:
        os.close(claim)


def check_writable(path: Path, *, inputs: Mapping[str, Path] | None = None) -> None:
    """Raise an error before the work begins, if `path` cannot be written.

    It is an InputError if `path` is one of the `inputs`, which are given by the names that the user knows.
    """
    for name, read in (inputs or {}).items():
        if path.exists() and read.exists() and path.samefile(read):
            raise InputError(f"'{path}' is {name}: choose another file, or {name} would be lost.")
    file = _temporary(_target(path))
    file.close()
    Path(file.name).unlink()


def _target(path: Path) -> Path:
    """Return the target of a link, and any other path unchanged."""
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if target.is_symlink():
        raise WriteError(f"Cannot write '{path}': it is a link to itself.")
    return target


def _temporary(path: Path, folder: Path | None = None) -> IO[bytes]:
    """Return a new file, locked as long as it is open; delete files that dead runs left for this target."""
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "a device, a pipe or a socket"
        raise WriteError(f"Cannot write '{path}': it is {kind}.")
    folder = path.parent if folder is None else folder
    prefix = f".{path.name}."
    try:
        for left in folder.glob(f"{glob.escape(prefix)}*{SUFFIX}"):
            _delete_if_dead(left)
        while True:
            # Not `tempfile`, whose files are private: here the kernel applies the umask.
            file = (folder / f"{prefix}{secrets.token_hex(8)}{SUFFIX}").open("x+b")
            _lock(file.fileno(), wait=True)
            if Path(file.name).exists():  # otherwise another run deleted it before it was locked
                return file
            file.close()
    except OSError as error:
        raise _cannot_write(path, error) from error


def _delete_if_dead(left: Path) -> None:
    """Delete a temporary file, unless a running process holds its lock."""
    # The file may be gone already, or in use on a system without these locks.
    with suppress(OSError), left.open("rb") as file:
        if _lock(file.fileno(), wait=False):
            left.unlink()


def _lock(file: int, *, wait: bool) -> bool:
    """Lock an open file until its last descriptor is closed; return False if another run holds the lock."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _cannot_write(path: Path, error: OSError) -> WriteError:
    # Errors of pyarrow have a number, too, but another text.
    reason = os.strerror(error.errno) if error.errno else str(error)
    if isinstance(error, FileNotFoundError):
        reason = f"there is no folder '{path.parent}'"
        if path.parent.is_dir():
            reason = f"the folder '{path.parent}' takes no files"
    return WriteError(f"Cannot write '{path}': {reason}. A previous file is unchanged.")
