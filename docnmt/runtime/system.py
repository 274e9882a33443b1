"""Users' errors, files and folders that appear whole or not at all, checksums, structured files, hub, pictures."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
import xxhash
from msgspec import Meta
from typing_extensions import Buffer

if TYPE_CHECKING:
    import numpy as np  # its arrays are no `Buffer` to type checkers
    from matplotlib.figure import Figure


# Errors that the user can fix: shown as one line, without a traceback.


#: Control characters other than tab and line feed, which could control a terminal.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class UserError(Exception):
    """An error whose one line names the file, line, option or tensor, the expectation and the fix. Exit status 1."""


class UsageError(UserError):
    """An error of the command line or a configuration file, with all problems, not only the first. Exit status 2."""

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        numbered = (f"({i}) {problem}" for i, problem in enumerate(self.problems, 1))
        super().__init__(
            self.problems[0] if len(self.problems) == 1 else f"{len(self.problems)} problems: {'; '.join(numbered)}"
        )


class Terminated(BaseException):
    """Raised when SIGTERM arrives. Training saves before it ends; everything else just ends with status 143."""

    signal = "SIGTERM"


class HungUp(Terminated):
    """Raised when SIGHUP arrives, with the same effect as SIGTERM."""

    signal = "SIGHUP"


@contextlib.contextmanager
def reading(name: Path | str) -> Iterator[None]:
    """Name the file that the system cannot read inside the context."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{name}: cannot be read: {error.strerror or error}") from error


@contextlib.contextmanager
def needing(what: str, extra: str) -> Iterator[None]:
    """Name the extra of docnmt that has the package whose import fails inside the context: `what` needs it."""
    try:
        yield
    except ImportError as error:
        raise UserError(f"{what}: pip install 'docnmt[{extra}]'") from error


def printable(text: str) -> str:
    """Return a text for a terminal: control characters (escape sequences, reversed writing) are written as `\\x1b`."""
    return _CONTROL.sub(lambda character: ascii(character[0])[1:-1], text)


def shortened(text: str, most: int = 4000) -> str:
    """Return a message without its middle if it is too long to read."""
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-most // 2 :]}"


# Checksums of files and tensors: xxh3 (64 bits). They show damage (a flipped bit, a file copied in part), not forgery.


#: The key of checksums in `meta.json` and in a checkpoint's header.
KIND = "xxh3"
#: Advice on damage.
_ADVICE = "it was damaged after docnmt wrote it; copy or make it again"
_checking: ContextVar[bool] = ContextVar("checking", default=True)


def checksum(*parts: Buffer | np.ndarray) -> str:
    """Return 16 hexadecimal digits for the bytes of all parts (bytes, contiguous arrays), one after the other."""
    digest = xxhash.xxh3_64()
    for part in parts:
        digest.update(part)  # type: ignore[arg-type]  # NumPy's arrays are no `Buffer` to mypy
    return digest.hexdigest()


def file_checksum(path: Path) -> str:
    """Return the checksum of a file's content, in constant memory."""
    with reading(path), path.open("rb", buffering=0) as file:
        return hashlib.file_digest(file, xxhash.xxh3_64).hexdigest()


def checking() -> bool:
    """Return True if files are compared with their checksums."""
    return _checking.get()


@contextlib.contextmanager
def skipped(skip: bool = True) -> Iterator[None]:
    """Compare nothing with checksums inside the context, for `--skip-checksums`."""
    token = _checking.set(not skip)
    try:
        yield
    finally:
        _checking.reset(token)


def tensor_checksum(dtype: str, shape: Collection[int], content: Buffer | np.ndarray) -> str:
    """Return the checksum of a tensor's type (as `float32`), shape and bytes."""
    return checksum(f"{dtype} {list(shape)}".encode(), content)


def stored_checksums(path: Path, metadata: Mapping[str, str], tensors: Collection[str]) -> dict[str, str]:
    """Return the checksums of a checkpoint's tensors; its header and the names of its tensors have been compared."""
    try:
        stored = json.loads(metadata[KIND])
        header, checksums = stored["header"], {name: str(value) for name, value in stored["tensors"].items()}
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError):
        raise UserError(f"{path}: its list of checksums is damaged; {_ADVICE}") from None
    if checking() and checksum(metadata["docnmt"].encode()) != header:
        raise UserError(f"{path}: its header is damaged (another checksum); {_ADVICE}")
    for name in sorted(checksums.keys() ^ set(tensors)):
        what = "is missing" if name in checksums else "has no checksum"
        raise UserError(f"{path}: tensor '{name}' {what}; {_ADVICE}")
    return checksums


def check_tensor(
    path: Path, name: str, expected: str, dtype: str, shape: Collection[int], content: Buffer | np.ndarray
) -> None:
    """Compare a checkpoint's tensor with its checksum."""
    if checking() and tensor_checksum(dtype, shape, content) != expected:
        raise UserError(f"{path}: tensor '{name}' is damaged (another checksum); {_ADVICE}")


# Models on the Hugging Face hub, or in its local cache: `hf://org/name`, `hf://org/name@revision`.


#: The pattern of addresses; in a `Path` one of the slashes is lost.
_ADDRESS = re.compile(r"hf:/{1,2}([\w.-]+/[\w.-]+)(?:@(\S+))?")
#: The files that docnmt reads of a repository; weights in other formats are not downloaded.
_FILES = ("checkpoint_*.safetensors", "*.json", "*.yaml", "README.md")


def is_address(path: str | Path) -> bool:
    """Return True if a path is an address on the hub."""
    return str(path).startswith("hf:/")


def fetched(path: str | Path) -> Path:
    """Return the folder of a model, from the cache or downloaded. With HF_HUB_OFFLINE=1 nothing is downloaded."""
    address = _ADDRESS.fullmatch(str(path))
    if address is None:
        raise UserError(f"{path}: expected hf://ORGANISATION/NAME, or hf://ORGANISATION/NAME@REVISION")
    with needing(f"{path} needs huggingface_hub", "convert"):
        from huggingface_hub import snapshot_download
    try:
        return Path(snapshot_download(address[1], revision=address[2], allow_patterns=list(_FILES)))
    except (OSError, ValueError) as error:
        why = str(error).strip().partition("\n")[0]
        raise UserError(f"hf://{address[1]}: cannot be had from the Hugging Face hub: {why}") from error


def address_of(path: str) -> str:
    """Turn `org/name` into an address if there is no such path and no folder `org`; return all else unchanged."""
    organisation = path.partition("/")[0]
    looks_so = re.fullmatch(r"[\w.-]+/[\w.-]+", path) is not None and not organisation.startswith(".")
    return f"hf://{path}" if looks_so and not Path(organisation).exists() else path


# Files and folders that appear whole or not at all, and checks before long work.


#: The names of the checkpoints that every run has.
LAST, BEST = "checkpoint_last.safetensors", "checkpoint_best.safetensors"
#: In the names of temporary files and folders, before a random word.
_TEMPORARY = "docnmt-"


def _fsync_path(path: Path) -> None:
    """Force a file, or a folder's list of names, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it is fsynced and renamed to `path`, else removed. If `path` is
    a link, its target is replaced.

    Nobody else can read the file while it is written; then it has the permissions of the one that it replaces, or those
    of a new file. A killed process leaves a hidden file `.NAME.docnmt-RANDOM.tmp`, which nothing reads."""
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise UserError(f"{path}: is a folder or a device, expected the name of a file; choose another")
    temporary: str | None = None
    try:
        make_folder(path.parent)
        # mkstemp opens a new file (O_EXCL, O_NOFOLLOW, 0600): never through a link, nor what is there already
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.{_TEMPORARY}", suffix=".tmp", dir=path.parent)
        os.close(descriptor)
        yield Path(temporary)
        os.chmod(temporary, _mode(path, new=0o666))
        _fsync_path(Path(temporary))
        os.replace(temporary, path)
        _fsync_path(path.parent)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}; nothing was changed") from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    """Make a folder for output; a note says that it is new, as its name may have been mistyped."""
    if not path.exists():
        path.mkdir(parents=True, exist_ok=True)
        print(f"note: {path}: is a new folder", file=sys.stderr)


def _mode(path: Path, *, new: int) -> int:
    """Return the permissions of what is at a path, or those that a new file or folder gets."""
    try:
        return stat.S_IMODE(path.stat().st_mode) & 0o777
    except FileNotFoundError:
        umask = os.umask(0o077)  # it can only be read by setting it
        os.umask(umask)
        return new & ~umask


def check_readable(path: Path) -> None:
    """Check before long work that a file can be opened for reading at its end."""
    with reading(path):
        path.open("rb").close()


def check_writable(path: Path) -> None:
    """Check before long work that `replacing` can write a file of this name at its end."""
    with contextlib.suppress(_Checked), replacing(path):
        raise _Checked


class _Checked(Exception):
    """Leaves `replacing` without writing a file."""


def check_new(path: Path, *, overwrite: bool, reads: Iterable[Path | str] = ()) -> None:
    """Check before long work that no file of this name exists, or that it may be replaced; none of `reads` may be."""
    if path.resolve() in (Path(read).resolve() for read in reads):
        raise UsageError(f"{path}: is a file that is read; give another name")
    check_writable(path)
    if path.exists() and not overwrite:
        raise UserError(f"{path}: exists already; give --overwrite to replace it or choose another name")


def write_text(path: Path, text: str) -> None:
    """Write a small text file completely or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="replace")  # paths in it need not be UTF-8


def write_json(path: Path, value: object) -> None:
    """Write a JSON file completely or not at all, in a readable layout."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=1) + "\n")


@contextlib.contextmanager
def replacing_folder(path: Path, *, marker: str, overwrite: bool) -> Iterator[Path]:
    """Yield a temporary folder beside `path` that replaces it on success and is removed otherwise; `marker` is a file
    that identifies docnmt's folders. If `path` is a link, its target is replaced. The old folder is moved aside first,
    to `.NAME.docnmt-old`; if a process is killed at that moment, the next one puts it back."""
    path = Path(os.path.realpath(path))
    aside = path.with_name(f".{path.name}.{_TEMPORARY}old")
    try:
        make_folder(path.parent)
        if aside.is_dir() and not aside.is_symlink() and not path.exists():
            os.replace(aside, path)
            print(f"note: {path}: is put back; a process was killed while it was being replaced", file=sys.stderr)
        check_folder(path, marker=marker, overwrite=overwrite)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.{_TEMPORARY}", suffix=".tmp", dir=path.parent))
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}") from error
    try:
        yield temporary
        for file in temporary.rglob("*"):
            _fsync_path(file)
        check_folder(path, marker=marker, overwrite=overwrite)  # it may have appeared, or been filled, since then
        os.chmod(temporary, _mode(path, new=0o777))
        shutil.rmtree(aside, ignore_errors=True)
        if path.exists():
            os.replace(path, aside)
        os.replace(temporary, path)
        shutil.rmtree(aside, ignore_errors=True)
        _fsync_path(path.parent)
    except OSError as error:
        if aside.is_dir() and not path.exists():
            os.replace(aside, path)
        raise UserError(f"{path}: cannot be written: {error.strerror or error}; nothing was changed") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_folder(path: Path, *, marker: str, overwrite: bool, reads: Iterable[Path | str] = ()) -> None:
    """Refuse, before any work is done, to overwrite something else than docnmt's own folder, or what is read."""
    above = next(parent for parent in Path(os.path.realpath(path)).parents if os.path.lexists(parent))
    try:
        os.rmdir(tempfile.mkdtemp(prefix=f".{path.name}.", dir=above))  # permissions do not say all
    except OSError as error:
        what = f"{above} is not a folder that takes new files ({error.strerror or error})"
        raise UserError(f"{path}: cannot be written: {what}; choose another") from error
    if not path.exists():
        return
    if not path.is_dir():
        raise UserError(f"{path}: is a file, expected a folder; choose another name")
    if os.path.ismount(path):
        raise UserError(
            f"{path}: is where a disk is mounted and cannot be replaced as a whole; give a folder inside it"
        )
    if not any(path.iterdir()):
        return
    if not (path / marker).exists():
        raise UserError(f"{path}: is not empty and was not written by docnmt ({marker} is missing); choose another")
    if not overwrite:
        raise UserError(f"{path}: exists already; give --overwrite to replace it or choose another folder")
    if inner := next((file for file in sorted(path.iterdir()) if file.is_dir()), None):  # docnmt writes files only
        raise UserError(f"{path}: --overwrite would delete {inner}, a folder that is not part of it; move it away")
    for read in map(Path, reads):  # itself, or a link that leads there or stands there
        if any(folder.is_relative_to(path.resolve()) for folder in (read.resolve(), read.parent.resolve())):
            raise UsageError(f"{path}: would take the place of {read}, which is read; give another folder")


def find_checkpoint(path: str | Path) -> Path:
    """Return the checkpoint file for a file, a folder or an address `hf://org/name`; in a folder the best, or else the
    last."""
    path = fetched(path) if is_address(path) else Path(path)
    if not path.is_dir():
        if not path.is_file():
            raise UserError(f"{path}: no such checkpoint or folder of checkpoints")
        return path
    for name in (BEST, LAST):
        if (path / name).is_file():
            return path / name
    raise UserError(f"{path}: holds neither {BEST} nor {LAST}; is it the --save-dir of a training run?")


# Pictures by matplotlib, if it is installed.


def picture_form(option: str, path: Path) -> str:
    """Return the picture format by the file's ending, `png` without one."""
    with needing("pictures need matplotlib", "evaluation"):
        from matplotlib.figure import Figure
    form = path.suffix.lstrip(".").lower() or "png"
    if form not in (forms := Figure().canvas.get_supported_filetypes()):
        raise UserError(f"{option} {path}: there is no picture form .{form}; there are {', '.join(forms)}")
    return form


def write_picture(figure: Figure, path: Path, form: str) -> None:
    """Write a figure to a file, completely or not at all."""
    with replacing(path) as temporary:
        figure.savefig(temporary, format=form, dpi=150)


# JSON files, checked against a schema before use: a type that msgspec supports, as a `Struct` or `dict[str, int]`.


T = TypeVar("T")

#: Types used in several schemas.
Count = Annotated[int, Meta(ge=0, le=1 << 62)]
Positive = Annotated[int, Meta(ge=1, le=1 << 62)]
Name = Annotated[str, Meta(pattern=r"^[^/\\\0]+$", max_length=255)]
_Scalar = bool | int | float | str | None
Value = _Scalar | list[_Scalar]

#: Upper bound of our own files' size; those of others that are read whole have limits of their own.
MOST_BYTES = 1 << 28


class OpenObject(msgspec.Struct):
    """The base of schemas for objects that may have further keys."""


def read_limited(path: Path, most: int = MOST_BYTES) -> bytes:
    """Read the content of a file."""
    with reading(path), path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise UserError(f"{path}: is larger than {most:,} bytes, and no such file is; is it another one?")
    return content


def parse_json(text: str | bytes, where: str, advice: str = "") -> object:
    """Parse a JSON text. NaN and infinities are accepted, as scores have them and msgspec's parser does not. A
    `UserError` names `where`, the file and the place, and adds the advice."""
    try:
        text = text if isinstance(text, str) else text.decode("utf-8-sig")  # json would accept lone surrogates
        value = json.loads(text)
        if "\\ud" in text.lower():
            json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair, which no file can store
        return value
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])[1:-1]
        raise UserError(f"{where}: half a character ({half} without its other half); remove it") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not valid JSON: {in_one_line(error)}{advice and f'; {advice}'}") from None


def checked(value: object, schema: type[T], where: str, advice: str = "") -> T:
    """Convert a JSON or YAML value to a schema's type; a `UserError` names the place, and adds the advice."""
    try:
        return msgspec.convert(value, schema)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UserError(f"{where}: {in_one_line(error)}{advice and f'; {advice}'}") from None


def read_json(path: Path, schema: type[T], advice: str = "", *, most: int = MOST_BYTES) -> T:
    """Read a JSON file as a schema's type."""
    return checked(parse_json(read_limited(path, most), str(path), advice), schema, str(path), advice)


def in_one_line(error: Exception) -> str:
    """Return a library's message on one line: msgspec's "Expected `int`, got `str` - at `$.a`" in docnmt's words."""
    text = " ".join(str(error).split()).replace("`", "'").replace(" - at '$", ", at '$")
    return (f"e{text[1:]}" if text.startswith("Expected ") else text)[:300]


# The version of docnmt, in one place.

__version__ = "0.2.0"
