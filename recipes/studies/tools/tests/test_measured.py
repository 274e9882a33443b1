"""What a study measured is read from one kept file as from its folders."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import measured

from docnmt.runtime.system import UserError

FILES = {
    "a/one/result.json": {"b": [1, 0.1, None, "é "], "a": "0110"}, "a/two/result.json": [],
    "a/one/log.jsonl": "{}\n{}\n", "b/note.md": "| x |\n",
}  # fmt: skip


@pytest.mark.parametrize("name", ["kept.jsonl", "kept.jsonl.xz"])
def test_a_kept_file_is_read_as_its_folder(tmp_path: Path, name: str) -> None:
    folder, kept = tmp_path / "study", tmp_path / name
    for path, content in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(content) if path.endswith(".json") else str(content)
        (folder / path).write_text(text, encoding="utf-8")
    assert not measured.main([str(folder), str(kept), "a/*/*.json"])
    assert not measured.main([str(folder), str(kept), "*/*.md", "*/*/*.jsonl"])  # what was kept before stays
    for pattern in ("*/*/*.json", "a/*/result.json", "*/note.md", "*", "*/*", "c/*"):
        paths = [path.relative_to(folder) for path in measured.find(folder, pattern) if path.is_file()]
        assert [path.relative_to(kept) for path in measured.find(kept, pattern)] == paths
    assert measured.find(kept / "a" / "one", "*.json") == [kept / "a" / "one" / "result.json"]
    for path in FILES:
        read = measured.read_json if path.endswith(".json") else measured.read_text
        assert read(kept / path) == read(folder / path) == FILES[path]
    assert json.loads(measured.read_text(kept / "a/one/result.json")) == FILES["a/one/result.json"]


def test_what_is_not_kept_or_damaged_is_named(tmp_path: Path) -> None:
    measured.keep(tmp_path / "kept.jsonl", {"a.json": 1})
    with pytest.raises(FileNotFoundError, match=r"kept\.jsonl/b\.json"):
        measured.read_json(tmp_path / "kept.jsonl" / "b.json")
    (tmp_path / "broken.jsonl.xz").write_bytes(b"xz no more")
    with pytest.raises(UserError, match=r"broken\.jsonl\.xz"):
        measured.read_json(tmp_path / "broken.jsonl.xz" / "a.json")
    assert measured.main([str(tmp_path), str(tmp_path / "out.jsonl"), "*.absent"]) == 1
    assert not (tmp_path / "out.jsonl").exists()
