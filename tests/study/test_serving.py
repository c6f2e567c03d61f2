"""Serving on a port: a clear word where it is taken; the rest is in test_killed.py and cli/test_study.py."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from studies import small_study

from l2x.apps.study._serving import serve
from l2x.errors import InputError


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as other, small_study(tmp_path / "a.study") as study:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(InputError, match=f"Cannot listen on 127.0.0.1:{port}"):
            serve(study, host="127.0.0.1", port=port)
