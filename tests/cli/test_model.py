"""MODEL on the command line: a module's attribute or an .onnx file, or one sentence that says why not."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Folder, make_frame

from l2x.apps.cli._model import load_black_box
from l2x.errors import InputError


def test_an_attribute_of_a_module_in_the_current_folder(folder: Folder) -> None:
    frame = make_frame(10, seed=2)[list("abcde")]
    assert load_black_box("cli_models:tree")(frame).shape == (10, 2)
    assert load_black_box("cli_models:tree.predict")(frame).shape[0] == 10


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("cli_models", "expected module:attribute"),
        ("nowhere:model", "Cannot load MODEL 'nowhere:model': No module named 'nowhere'"),
        ("cli_models:no", "no attribute 'no'"),
        ("no.onnx", "no file 'no.onnx'"),
        ("cli_broken:model", "Importing MODEL 'cli_broken:model' raised ZeroDivisionError"),
    ],
)
def test_what_is_not_a_model(folder: Folder, spec: str, sentence: str) -> None:
    Path("cli_broken.py").write_text("1 / 0\n")
    with pytest.raises(InputError, match=sentence):
        load_black_box(spec)
