"""Export folders: the record of what an export has written."""

from __future__ import annotations

from pathlib import Path

import pytest

from palbert.errors import RunFolderError
from palbert.verbs.exports.export_folder import record_export, refuse_to_replace_export


def test_only_a_recorded_folder_is_replaced_and_only_with_force(tmp_path: Path) -> None:
    refuse_to_replace_export(tmp_path / "none", force=False)
    refuse_to_replace_export(tmp_path, force=False)
    (tmp_path / "model.onnx").write_text("numbers")
    with pytest.raises(RunFolderError, match=r"model\.onnx: palbert did not export this"):
        refuse_to_replace_export(tmp_path, force=True)
    record_export(tmp_path, {"from": "a run"})
    with pytest.raises(RunFolderError, match="holds an export already"):
        refuse_to_replace_export(tmp_path, force=False)
    refuse_to_replace_export(tmp_path, force=True)
