"""Models on the Hugging Face hub: out of its local cache, without a network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import small_system

from docnmt.apps.commands.models import split_path
from docnmt.cli.convert import main as convert
from docnmt.cli.inspect import main as inspect
from docnmt.runtime.system import UserError, address_of, fetched, is_address

pytest.importorskip("huggingface_hub")

SCRIPT = """
import sys, docnmt
from docnmt.cli.translate import main
print(docnmt.load("some/model").translate(["a b c"], beam=2)[0].text)
print(docnmt.load("hf://some/model").score(["a b"], ["b a"])[0])
status = [main(["--path", path, "--input-format", "corpus", "--beam", "2"]) for path in sys.argv[1:]]
print(status)
"""


def test_a_folder_for_the_hub_is_loaded_from_its_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A document model, whole: card, settings of the search, checkpoint without optimizer."""
    own = small_system.random_checkpoint(tmp_path / "own.safetensors")
    folder = tmp_path / "cache/models--some--model/snapshots/0123"
    assert convert([str(own), str(tmp_path / "model"), "--to", "hub-folder"]) == 0
    assert inspect(["--verify", str(tmp_path / "model")]) == 0
    card = (tmp_path / "model/README.md").read_text(encoding="utf-8")
    assert 'docnmt.load("ORGANISATION/model")' in card
    assert card.startswith("---\nlanguage:\n- ")
    assert json.loads((tmp_path / "model/generation_config.json").read_text())["num_beams"] == 5
    assert convert([str(own), str(tmp_path / "model"), "--to", "hub-folder", "-t", "de", "--overwrite"]) == 2
    shutil.copytree(tmp_path / "model", folder)
    (tmp_path / "cache/models--some--model/refs").mkdir()
    (tmp_path / "cache/models--some--model/refs/main").write_text("0123")
    settings = {"HF_HUB_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT, "hf://some/model", "hf://some/model:hf://some/model@main", "hf://no/model"],
        input=b"a b c\n", capture_output=True, env={**os.environ, **settings}, cwd=tmp_path, check=True,
    )  # fmt: skip
    text, score, one, *others = found.stdout.decode().split("\n")
    assert text == one
    assert float(score) < 0
    assert others[-2] == "[0, 0, 1]"
    errors = [line for line in found.stderr.decode().splitlines() if " error: " in line]
    assert len(errors) == 1
    assert "hf://no/model" in errors[0]


def test_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    assert [address_of(name) for name in ("some/model", "runs/model", "model", "./a/b", "a/b/c", "../m")] == [
        "hf://some/model", "runs/model", "model", "./a/b", "a/b/c", "../m",
    ]  # fmt: skip
    assert split_path("hf://a/b:runs/c:hf://d/e@v1") == ["hf://a/b", "runs/c", "hf://d/e@v1"]
    assert is_address(Path("hf://a/b"))
    for wrong in ("hf://a", "hf://a/b/c", "hf://"):
        with pytest.raises(UserError, match="hf://"):
            fetched(wrong)
