"""`l2x data`: what is fetched, and what is said where that fails."""

from __future__ import annotations

from pathlib import Path

from command_line import Folder


def test_data_fetch_says_where_it_is_and_what_is_missing(folder: Folder, tmp_path: Path) -> None:
    told = folder.run("data", "fetch", "mnist", "--from", tmp_path, "--quiet", code=1)
    assert "does not hold the data set 'mnist': there is no train-images-idx3-ubyte." in " ".join(
        told.stderr.split()
    )
    folder.run("data", "fetch", "letters", code=2)
