import json

import numpy as np
import pytest

from gaussbell import records


def test_round_trip(tmp_path):
    record = {
        "a": np.arange(3.0),
        "b": [np.float64(1.5), np.nan, np.inf],
        "c": {"d": True, "e": None, "f": "x"},
    }
    path = records.write(tmp_path / "deep" / "record.json", record)
    assert records.read(path) == {
        "a": [0, 1, 2],
        "b": [1.5, None, None],
        "c": {"d": True, "e": None, "f": "x"},
    }


def test_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path, monkeypatch):
    path = records.write(tmp_path / "record.json", {"kept": 1})

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(records.files.os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        records.write(path, {"lost": 2})
    assert json.loads(path.read_text()) == {"kept": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["record.json"]


@pytest.mark.parametrize("text", ['{"cut": [1, 2', "[1]", ""])
def test_partial_record(tmp_path, text):
    path = tmp_path / "record.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"record.json"):
        records.read(path)
