"""Files appear whole or not at all, with the usual permissions, and a problem is known before the work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from l2x._base.atomic import check_writable, replacing, write_atomically
from l2x.errors import InputError, WriteError


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    with (
        pytest.raises(WriteError, match=r"Cannot write .*No space left.*unchanged"),
        replacing(tmp_path / "t"),
    ):
        raise OSError(28, "No space left on device")
    assert not list(tmp_path.iterdir())


def test_the_result_has_the_usual_rights(tmp_path: Path) -> None:
    with replacing(tmp_path / "t") as file:
        file.write(b"x")
    (tmp_path / "usual").touch()
    assert (tmp_path / "t").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_the_umask_applies_and_is_never_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It belongs to the whole process: another thread may create a file at that moment."""
    before = os.umask(0o027)
    try:
        with monkeypatch.context() as patched:
            patched.delattr(os, "umask")
            write_atomically(tmp_path / "t", b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "t").stat().st_mode & 0o777 == 0o640


def test_where_nothing_can_be_written_is_known_before_the_work(tmp_path: Path) -> None:
    check_writable(tmp_path / "t.l2x")
    assert not list(tmp_path.iterdir())
    with pytest.raises(WriteError, match="there is no folder"):
        check_writable(tmp_path / "nowhere" / "t.l2x")
    with pytest.raises(WriteError, match="it is a folder"):
        check_writable(tmp_path)


def test_an_older_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = write_atomically(tmp_path / "t", b"old")

    def write_half() -> None:
        with replacing(path) as file:
            file.write(b"ne")
            file.flush()
            assert path.read_bytes() == b"old"
            raise ValueError("half-way")

    with pytest.raises(ValueError, match="half-way"):
        write_half()
    assert path.read_bytes() == b"old"
    write_atomically(str(path), b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_work_may_be_done_in_another_folder(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with replacing(tmp_path / "t", folder=other) as file:
        assert Path(file.name).parent == other
        file.write(b"x")
    assert (tmp_path / "t").read_bytes() == b"x"
    assert not list(other.iterdir())


def test_what_is_read_is_not_written_over(tmp_path: Path) -> None:
    path = write_atomically(tmp_path / "t", b"precious")
    (tmp_path / "link").symlink_to(path)
    for same in (path, tmp_path / "link", tmp_path / "." / "t"):
        with pytest.raises(InputError, match=r"is DATA: "):
            check_writable(same, inputs={"DATA": path})
    check_writable(tmp_path / "u", inputs={"DATA": path, "MODEL": tmp_path / "nowhere"})


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target = tmp_path / "versions" / "v1"
    target.parent.mkdir()
    target.write_bytes(b"old")
    link = tmp_path / "current"
    link.symlink_to("versions/v1")
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    dangling = tmp_path / "next"
    dangling.symlink_to("versions/v2")
    write_atomically(dangling, b"newer")
    assert (tmp_path / "versions" / "v2").read_bytes() == b"newer"
    assert sorted(path.name for path in target.parent.iterdir()) == ["v1", "v2"]


def test_links_in_a_circle_lead_nowhere(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.symlink_to(second)
    second.symlink_to(first)
    with pytest.raises(WriteError, match=r"it is a link"):
        write_atomically(first, b"x")
    assert first.is_symlink()
    assert second.is_symlink()


def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path(os.devnull), tmp_path):
        for write in (lambda path=path: write_atomically(path, b"x"), lambda path=path: check_writable(path)):
            with pytest.raises(WriteError, match=r"Cannot write .*: it is a (device|folder)"):
                write()
    assert pipe.is_fifo()
    assert Path(os.devnull).is_char_device()
    assert list(tmp_path.iterdir()) == [pipe]


WRITER = """
import sys, time
from pathlib import Path
from l2x._base.atomic import replacing
with replacing(Path(sys.argv[1])) as file:
    print("writing", flush=True)
    sys.stdin.readline()
    file.write(b"whole")
"""


def writer(path: Path) -> subprocess.Popen[bytes]:
    """Another run, in the middle of writing."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"writing\n"
    return process


def test_what_dead_runs_left_is_deleted_and_what_live_ones_write_is_not(tmp_path: Path) -> None:
    path = tmp_path / "t [1]"  # which is a pattern, too
    mine = tmp_path / ".t [1].backup"
    mine.write_text("a user's own")
    dead, alive = writer(path), writer(path)
    dead.send_signal(signal.SIGKILL)
    dead.wait()
    assert len(list(tmp_path.iterdir())) == 3
    write_atomically(path, b"mine")
    assert len(list(tmp_path.iterdir())) == 3  # the file, the user's own, and that of the live run
    alive.communicate(b"\n", timeout=30)
    assert alive.returncode == 0
    assert path.read_bytes() == b"whole"
    assert sorted(tmp_path.iterdir()) == [mine, path]
    for process in (dead, alive):
        process.stdin.close()
        process.stdout.close()
