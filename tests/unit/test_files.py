"""Files and folders appear whole; what killed processes left harms nothing, and an old folder is put back."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from docnmt.runtime.system import UserError, check_folder, check_writable, replacing, replacing_folder

REPLACE_FILE = """
import os, signal, sys
from pathlib import Path
from docnmt.runtime.system import replacing
with replacing(Path(sys.argv[1])) as temporary:
    temporary.write_text("new")
    os.kill(os.getpid(), signal.SIGKILL)
"""
REPLACE_FOLDER = """
import os, signal, sys
from pathlib import Path
from docnmt.runtime import system as files
rename, count = os.replace, 0
def dying(one, other):
    global count
    rename(one, other)
    count += 1
    if count == 1:  # the old folder is out of the way, the new one is not there
        os.kill(os.getpid(), signal.SIGKILL)
files.os.replace = dying
with files.replacing_folder(Path(sys.argv[1]), marker="meta.json", overwrite=True) as folder:
    (folder / "meta.json").write_text("new")
"""


def killed(script: str, path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def test_what_a_killed_one_leaves_harms_nothing(tmp_path: Path) -> None:
    path = tmp_path / "vectors.npy"
    path.write_text("old")
    killed(REPLACE_FILE, path)
    (left,) = hidden(tmp_path)
    assert path.read_text() == "old"
    check_writable(path)
    with replacing(path) as temporary:
        temporary.write_text("newer")
    assert path.read_text() == "newer"
    assert hidden(tmp_path) == [left]
    assert (tmp_path / left).stat().st_mode & 0o777 == 0o600


def test_a_folder_that_was_moved_aside_comes_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "data"
    path.mkdir()
    (path / "meta.json").write_text("old")
    killed(REPLACE_FOLDER, path)
    assert not path.exists()
    with contextlib.suppress(UserError), replacing_folder(path, marker="meta.json", overwrite=False):
        pytest.fail("the old folder is there again, and may not be replaced")
    assert "data" in capsys.readouterr().err
    assert (path / "meta.json").read_text() == "old"
    assert len(hidden(tmp_path)) == 1  # the new one


def test_folders_are_replaced(tmp_path: Path) -> None:
    for text in ("old", "new"):
        with replacing_folder(tmp_path / "data", marker="meta.json", overwrite=True) as folder:
            (folder / "meta.json").write_text(text)
            (folder / text).touch()
    assert sorted(file.name for file in (tmp_path / "data").iterdir()) == ["meta.json", "new"]
    assert hidden(tmp_path) == []


def test_what_overwrite_would_take_along_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _folder(tmp_path / "data")
    check_folder(tmp_path / "data", marker="meta.json", overwrite=True)
    with monkeypatch.context() as patched:
        patched.setattr("os.path.ismount", lambda path: Path(path) == tmp_path / "data")
        with pytest.raises(UserError):
            check_folder(tmp_path / "data", marker="meta.json", overwrite=True)
    (tmp_path / "data" / "run").mkdir()
    with pytest.raises(UserError, match=f"--overwrite.*{tmp_path}/data/run"):
        _folder(tmp_path / "data")
    assert (tmp_path / "data" / "run").is_dir()


def test_a_folder_that_appears_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "data"

    def meanwhile() -> None:
        with replacing_folder(path, marker="meta.json", overwrite=False) as folder:
            (folder / "meta.json").write_text("new")
            path.mkdir()
            (path / "meta.json").write_text("another's")

    with pytest.raises(UserError):
        meanwhile()
    assert (path / "meta.json").read_text() == "another's"
    assert hidden(tmp_path) == []


@pytest.mark.parametrize("read", ["data/a.txt", "data", "link", "data/link"])
def test_what_is_read_is_not_replaced(tmp_path: Path, read: str) -> None:
    _folder(tmp_path / "data")
    for name in ("data/a.txt", "a.txt"):
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to(tmp_path / "data/a.txt")
    (tmp_path / "data/link").symlink_to(tmp_path / "a.txt")
    check_folder(tmp_path / "data", marker="meta.json", overwrite=True, reads=[tmp_path / "a.txt"])
    with pytest.raises(UserError, match=rf"{tmp_path}/{read}\b"):
        check_folder(tmp_path / "data", marker="meta.json", overwrite=True, reads=[tmp_path / "a.txt", tmp_path / read])


def _file(path: Path) -> None:
    with replacing(path) as temporary:
        temporary.write_text("new")


def _folder(path: Path) -> None:
    with replacing_folder(path, marker="meta.json", overwrite=True) as folder:
        (folder / "meta.json").write_text("new")


@pytest.mark.parametrize("write", [_file, _folder])
def test_what_others_made_stays(tmp_path: Path, write: Callable[[Path], None]) -> None:
    (tmp_path / ".data.mine.old").mkdir()
    (tmp_path / ".data.docnmt-mine.old").mkdir()
    for name in (".data.12.tmp", ".data.docnmt-12-abc.tmp", ".data.docnmt-12-abcdefgh.tmp.mine"):
        (tmp_path / name).write_text("mine")
    before = hidden(tmp_path)
    for _ in range(2):
        write(tmp_path / "data")
    assert hidden(tmp_path) == before


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_permissions(tmp_path: Path, umask: int) -> None:
    """Nobody else reads what is being written; a replaced file or folder keeps its permissions."""
    before = os.umask(umask)
    try:
        for number, mode in enumerate((None, 0o600, 0o640)):
            file, folder = tmp_path / f"file{number}", tmp_path / f"folder{number}"
            if mode:
                _file(file)
                _folder(folder)
                os.chmod(file, mode)
                os.chmod(folder, mode | 0o100)
            with replacing(file) as temporary, replacing_folder(folder, marker="meta.json", overwrite=True) as inside:
                assert [temporary.stat().st_mode & 0o777, inside.stat().st_mode & 0o777] == [0o600, 0o700]
                temporary.write_text("new")
                (inside / "meta.json").touch()
            assert file.stat().st_mode & 0o777 == (mode or 0o666 & ~umask)
            assert folder.stat().st_mode & 0o777 == (mode | 0o100 if mode else 0o777 & ~umask)
    finally:
        os.umask(before)


def test_a_planted_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever knows the next name of a temporary file has only the next one to guess; the target stays as it is."""
    (tmp_path / "secret").write_text("secret")
    names = iter(["aaaaaaaa", "bbbbbbbb"])
    monkeypatch.setattr("tempfile._get_candidate_names", lambda: names)
    (tmp_path / ".data.docnmt-aaaaaaaa.tmp").symlink_to(tmp_path / "secret")
    _file(tmp_path / "data")
    assert (tmp_path / "secret").read_text() == "secret"
    assert (tmp_path / "data").read_text() == "new"
    assert hidden(tmp_path) == [".data.docnmt-aaaaaaaa.tmp"]  # a link of another's making


@pytest.mark.parametrize("write", [_file, _folder])
def test_links_stay_links(tmp_path: Path, write: Callable[[Path], None]) -> None:
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "elsewhere" / "target"
    (tmp_path / "link").symlink_to(target)
    for _ in range(2):
        write(tmp_path / "link")
        assert (tmp_path / "link").is_symlink()
        assert (target if target.is_file() else target / "meta.json").read_text() == "new"
