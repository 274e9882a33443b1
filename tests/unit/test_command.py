"""How a command ends: what it says on one line, whatever went wrong."""

from __future__ import annotations

import pytest
import torch

from docnmt.cli.command import run
from docnmt.errors import UserError


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        MemoryError("Unable to allocate 8.00 PiB for an array with shape (1125899906842624,)"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: 80 bytes"),
        RuntimeError("std::bad_alloc"),
        torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    ],
)
def test_out_of_memory_is_expected(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    def work(words: list[str]) -> None:
        raise error

    assert run("docnmt-translate", work, []) == 1
    said = capsys.readouterr().err
    assert said.startswith("docnmt-translate: error: out of memory: ")
    assert said.endswith("; give less at once (--max-tokens, --beam), or a smaller model\n")
    assert "unexpected" not in said


def test_text_of_others_does_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    def work(words: list[str]) -> None:
        raise UserError("file\x1b[2J.txt:\n3: bad")

    assert run("docnmt-score", work, []) == 1
    assert capsys.readouterr().err == "docnmt-score: error: file\\x1b[2J.txt: 3: bad\n"
