"""docnmt-completion: what bash offers where, asked of bash itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from docnmt.cli.commands import COMMANDS
from docnmt.cli.commands import completion as main

pytest.importorskip("shtab", reason="needs shtab")


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one for bash."""
    folder = tmp_path_factory.mktemp("completion")
    with (folder / "bash").open("w") as out, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", out)
        assert main(["bash"]) == 0
    return folder / "bash"


def offered(script: Path, *words: str, inside: Path | None = None) -> list[str]:
    """What bash offers for the last of these words."""
    listed = " ".join(f"'{word}'" for word in words)
    text = f"""
        source {script}
        COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; COMP_LINE="${{COMP_WORDS[*]}}"; COMP_POINT=${{#COMP_LINE}}
        function=$(complete -p {words[0]} | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        $function {words[0]} "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, cwd=inside, check=True)
    assert not done.stderr
    return done.stdout.split()


pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


def test_every_command_is_completed(script: Path) -> None:
    from documented import SCRIPTS

    assert {command.prog for command in COMMANDS.values()} == set(SCRIPTS)
    for command in SCRIPTS:
        assert "--help" in offered(script, command, "--he")


def test_options_values_and_files(script: Path, tmp_path: Path) -> None:
    assert "--target-context" in offered(script, "docnmt-train", "--target-c")  # of some architectures only
    assert "--contrastive" in offered(script, "docnmt-score", "--contr")
    assert offered(script, "docnmt-completion", "f") == ["fish"]
    assert offered(script, "docnmt-translate", "--generator", "b") == ["beam_search"]
    assert offered(script, "docnmt-train", "--position", "rope_i") == ["rope_input"]
    (tmp_path / "model.safetensors").touch()
    assert offered(script, "docnmt-serve", "--path", "mod", inside=tmp_path) == ["model.safetensors"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells(shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([shell]) == 0
    text = capsys.readouterr().out
    assert "docnmt-serve" in text
    if shutil.which(shell):
        (tmp_path / shell).write_text(text)
        subprocess.run([shell, "-n", str(tmp_path / shell)], check=True)
