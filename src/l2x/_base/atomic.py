"""Files that appear whole or not at all: written beside their target, then renamed."""

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

# How temporary files end: nobody else's are deleted.
SUFFIX = ".l2x-tmp"


def write_atomically(path: str | Path, content: bytes) -> Path:
    """Write a whole file; an older one at `path` stays intact until then."""
    path = Path(path)
    with replacing(path) as file:
        file.write(content)
    return path


@contextmanager
def replacing(path: Path, *, folder: Path | None = None) -> Iterator[IO[bytes]]:
    """A file in `folder`, by default beside `path`, that takes its place when the block ends well, and
    vanishes when it does not. A link stays a link: what it points to is replaced."""
    path = _target(path)
    file = _temporary(path, folder)
    claim = os.dup(file.fileno())  # keeps the lock until the file is in its place
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
    """Fail now rather than after an hour of work, if nothing can be written to `path`, or if it is one of the
    `inputs`, by what the user calls them."""
    for name, read in (inputs or {}).items():
        if path.exists() and read.exists() and path.samefile(read):
            raise InputError(f"'{path}' is {name}: write to another file, or {name} would be lost.")
    file = _temporary(_target(path))
    file.close()
    Path(file.name).unlink()


def _target(path: Path) -> Path:
    """What a link points to; any other path as it is."""
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if target.is_symlink():
        raise WriteError(f"Cannot write '{path}': it is a link that leads back to itself.")
    return target


def _temporary(path: Path, folder: Path | None = None) -> IO[bytes]:
    """A new file in `folder`, by default that of `path`, locked as long as it is open. What runs that are no
    longer alive left there is deleted."""
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "no regular file, but a device, a pipe or a socket"
        raise WriteError(f"Cannot write '{path}': it is {kind}.")
    folder = path.parent if folder is None else folder
    prefix = f".{path.name}."
    try:
        for left in folder.glob(f"{glob.escape(prefix)}*{SUFFIX}"):
            _delete_if_dead(left)
        while True:
            file = _created(folder, prefix)
            _lock(file.fileno(), wait=True)
            if Path(file.name).exists():  # else another run took it for a dead one before it was locked
                return file
            file.close()
    except OSError as error:
        raise _cannot_write(path, error) from error


def _created(folder: Path, prefix: str) -> IO[bytes]:
    # Not `tempfile`, whose files are private: here the kernel applies the umask. "x" opens no existing file.
    return (folder / f"{prefix}{secrets.token_hex(8)}{SUFFIX}").open("x+b")


def _delete_if_dead(left: Path) -> None:
    """Delete a temporary file, unless the run that writes it is still alive and holds its lock."""
    # It may be gone already, or in use on a system without these locks.
    with suppress(OSError), left.open("rb") as file:
        if _lock(file.fileno(), wait=False):
            left.unlink()


def _lock(file: int, *, wait: bool) -> bool:
    """Lock an open file, which ends with the last of its descriptors; False if another run has it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _cannot_write(path: Path, error: OSError) -> WriteError:
    # pyarrow's errors hold a number, too, but put it into words of their own.
    reason = os.strerror(error.errno) if error.errno else str(error)
    if isinstance(error, FileNotFoundError):
        reason = f"there is no folder '{path.parent}'"
    return WriteError(f"Cannot write '{path}': {reason}. What was there before is unchanged.")
