"""Files appear whole or not at all, with the usual permissions, and a problem is known before the work."""

from __future__ import annotations

from pathlib import Path

import pytest

from l2x.errors import WriteError
from l2x.foundations.atomic import check_writable, replacing


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


def test_where_nothing_can_be_written_is_known_before_the_work(tmp_path: Path) -> None:
    check_writable(tmp_path / "t.l2x")
    assert not list(tmp_path.iterdir())
    with pytest.raises(WriteError, match="there is no folder"):
        check_writable(tmp_path / "nowhere" / "t.l2x")
    with pytest.raises(WriteError, match="it is a folder"):
        check_writable(tmp_path)
