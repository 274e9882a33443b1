"""Documents: what stays as it was around what is translated."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

import pytest
import sample_documents
from sample_documents import Model, document, translate


@pytest.mark.parametrize("function", [str.upper, lambda text: " ".join(text.split()[::-1]), lambda text: ""])
def test_srt_dashes_stay_at_the_beginnings_of_lines(function: Callable[[str], str]) -> None:
    """Whatever the model makes of the words; it does not see them."""
    first = "1\n00:00:01,000 --> 00:00:02,000\n- The dog. It walks.\n- The cat.\n\n"
    second = "2\n00:00:03,000 --> 00:00:04,000\n<i>–Old house.</i>\n{\\an8}— A tree.\n"
    found, model = document("srt", first + second), Model(function)
    assert found.segments[0].text == "The dog. It walks.\nThe cat."
    lines = translate(found, model).decode().splitlines()
    assert [line[:2] for line in lines[2:4]] == ["- ", "- "]
    assert lines[7].startswith("<i>–")
    assert lines[8].startswith("{\\an8}— ")


def test_srt_signs_of_numbers_are_text() -> None:
    found = document("srt", "1\n00:00:01,000 --> 00:00:02,000\n-5 degrees, dogs -\n-\n")
    assert found.segments[0].text == "-5 degrees, dogs -\n-"


DECLARED = {
    "xlf": sample_documents.XLF.replace('encoding="utf-8"?>', "encoding='utf-8' standalone=\"yes\" ?>\n<!-- kept -->"),
    "tmx": sample_documents.TMX.replace('"?>', '"  ?>').replace(' "tmx14.dtd"', "\n 'tmx14.dtd'"),
}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("kind", DECLARED)
def test_what_stands_before_the_root_of_xml_stays(kind: str, encoding: str, end: str) -> None:
    text = DECLARED[kind].replace("utf-8", encoding[:6].rstrip("-")).replace("\n", end)
    content = (("\ufeff" if encoding == "utf-16-be" else "") + text).encode(encoding)
    found = document(kind, content)
    written = translate(found, Model())
    root = "<xliff" if kind == "xlf" else "<tmx "
    assert written.decode(encoding).partition(root)[0] == content.decode(encoding).partition(root)[0]
    assert written[:2] == content[:2]
    assert written.decode(encoding).count("\n") == written.decode(encoding).count(end)
    assert [each.text for each in document(kind, written).segments] == [each.text for each in found.segments]


def test_an_encoding_that_python_does_not_share_is_written_all_the_same() -> None:
    content = sample_documents.TMX.replace('"?>', '" encoding="Shift_JIS"?>').replace("dog", "犬").encode("shift_jis")
    assert "THE <hi>OLD</hi> 犬" in translate(document("tmx", content), Model()).decode("shift_jis")


def test_odt_and_docx_keep_their_declarations() -> None:
    for kind, part in (("odt", "content.xml"), ("docx", "word/document.xml")):
        found = document(kind)
        packages = [zipfile.ZipFile(io.BytesIO(each)) for each in (found.content, translate(found, Model()))]
        begins = [package.read(part).partition(b"?>")[0] for package in packages]
        assert begins[0] == begins[1]
        assert begins[0].startswith(b"<?xml")
