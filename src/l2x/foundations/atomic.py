"""Files that appear whole or not at all: written beside their target, then renamed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from l2x.errors import InputError, WriteError


def write_atomically(path: str | Path, content: bytes) -> Path:
    """Write a whole file; an older one at `path` stays intact until then."""
    path = Path(path)
    with replacing(path) as file:
        file.write(content)
    return path


@contextmanager
def replacing(path: Path, *, folder: Path | None = None) -> Iterator[IO[bytes]]:
    """A file in `folder`, by default beside `path`, that takes its place when the block ends well, and
    vanishes when it does not."""
    file = _temporary(path, folder)
    try:
        yield file
        file.flush()
        os.fsync(file.fileno())
        file.close()
        # Temporary files are private; a result gets the usual permissions.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(file.name, 0o666 & ~umask)
        os.replace(file.name, path)
    except BaseException as error:
        file.close()
        Path(file.name).unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, WriteError):
            raise _cannot_write(path, error) from error
        raise


def check_writable(path: Path, *, inputs: Mapping[str, Path] | None = None) -> None:
    """Fail now rather than after an hour of work, if nothing can be written to `path`, or if it is one of the
    `inputs`, by what the user calls them."""
    for name, read in (inputs or {}).items():
        if path.exists() and read.exists() and path.samefile(read):
            raise InputError(f"'{path}' is {name}: write to another file, or {name} would be lost.")
    file = _temporary(path)
    file.close()
    Path(file.name).unlink()


def _temporary(path: Path, folder: Path | None = None) -> IO[bytes]:
    """A new file in `folder`, by default that of `path`."""
    if path.is_dir():
        raise WriteError(f"Cannot write '{path}': it is a folder.")
    folder = path.parent if folder is None else folder
    try:
        return tempfile.NamedTemporaryFile(dir=folder, prefix=f".{path.name}.", delete=False)
    except OSError as error:
        raise _cannot_write(path, error) from error


def _cannot_write(path: Path, error: OSError) -> WriteError:
    # pyarrow's errors hold a number, too, but put it into words of their own.
    reason = os.strerror(error.errno) if error.errno else str(error)
    if isinstance(error, FileNotFoundError):
        reason = f"there is no folder '{path.parent}'"
    return WriteError(f"Cannot write '{path}': {reason}. What was there before is unchanged.")
