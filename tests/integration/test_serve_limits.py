"""What docnmt-serve refuses, and how it says so; on the application itself, without a network."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import small_system

pytest.importorskip("uvicorn", reason="needs docnmt[serve]")
from served import started, translating
from starlette.testclient import TestClient

from docnmt.apps.commands.translating import Translating
from docnmt.apps.serve.file_processes import FileProcesses
from docnmt.apps.serve.http import Refused, client_of
from docnmt.apps.serve.kept import MOST_BYTES, FileJob, FileJobs

Start = Callable[..., TestClient]


@pytest.fixture(scope="module")
def models() -> Translating:
    return translating()


@pytest.fixture
def start(models: Translating) -> Iterator[Start]:
    clients: list[Any] = []

    def begin(token: str | None = None, **options: Any) -> TestClient:
        clients.append(started(models, token, **options))
        return clients[-1]

    yield begin
    for client in clients:
        client.service.worker.stop()
        client.service.files.close()


def refused(answer: Any) -> tuple[int, str]:
    """Every refusal is JSON of one form."""
    error = answer.json()["error"]
    assert set(error) == {"status", "code", "message"}
    assert error["status"] == answer.status_code
    return answer.status_code, error["code"]


JSON = {"content-type": "application/json"}
FORM = {"content-type": "application/x-www-form-urlencoded"}
OK = b'{"text": "a"}'
FILE = b'--B\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nIt.\r\n--B--\r\n'


def multipart(more: str) -> dict[str, str]:
    return {"content-type": f"multipart/form-data; boundary=B{more}"}


@pytest.fixture(scope="module")
def plain(models: Translating) -> Iterator[TestClient]:
    """A client of a service with the limits that it has by default."""
    client = started(models)
    yield client
    client.service.worker.stop()


@pytest.mark.parametrize(
    ("path", "content", "headers", "status", "named"),
    [
        *(("/translate", body, JSON, 400, "invalid_") for body in (
            b"", b"{", b"[]", b"{}", b'{"text": 1}', b'{"text": "a", "documents": []}', b'{"documents": ["a"]}',
            b'{"documents": [["a", null]]}', b'{"text": "a", "more": 1}', b'{"text": "\xff"}', b'{"text": "\\ud800"}',
            b'{"text": "a\\u0000b"}', b'{"text": "a\\rb"}', b'{"documents": [["a\\nb"]]}',
            b'{"documents": [["a\\u0000"]]}', b"[" * 100_000, b'{"text": NaN}',
        )),
        *((path, body, JSON, 400, "surrogate pair") for path, body in (
            ("/translate", b'{"text": "\\ud800"}'), ("/v2/translate", b'{"text": ["\\ud800"], "target_lang": "de"}'),
        )),
        ("/translate?explain=true", OK, JSON, 400, "'explain'"),
        ("/translate/file?name=a.txt&knd=docx", OK, JSON, 400, "'knd'"),
        ("/translate/file?kind=txt&kind=docx", OK, JSON, 400, "'kind'"),
        *(("/translate", OK, {"content-type": kind}, 415, "wrong_type") for kind in (
            "text/plain", FORM["content-type"], "", "application/jsonx",
        )),
        ("/translate", OK, {**JSON, "content-encoding": "gzip"}, 415, "compressed"),
        *(("/translate/file", FILE, multipart(charset), 400, "charset") for charset in (
            "; charset=punycode", "; charset=utf-8; charset=punycode", '; x="charset=utf-8"; charset="punycode"',
        )),
        # 1.9 million lists were made at once, and 7.9 million signs read, while /health waited
        *((path, b'{"documents": ' + b"[" * 400_001, JSON, 413, "lists and objects") for path in (
            "/translate", "/v2/translate", "/v1/chat/completions",
        )),
        ("/v2/translate", b"target_lang=de&text=" + b"%" * 90, FORM, 400, "%"),
        ("/v2/translate", b"target_lang=de&tag_handling=html&text=" + b"<b>x" * 60_000, FORM, 413, "40,000 marks"),
    ],
)  # fmt: skip
def test_what_is_not_as_expected_is_refused(
    plain: TestClient, path: str, content: bytes, headers: dict[str, str], status: int, named: str
) -> None:
    answer = plain.post(path, content=content, headers=headers)
    assert (answer.status_code, named in answer.text) == (status, True), answer.text
    if path.startswith("/translate"):
        refused(answer)


def test_sizes(start: Start) -> None:
    client = start(max_body=300, max_request_tokens=30, max_sentence_tokens=10)
    parts = (part for part in (b'{"text": "', *[b"aaaaa"] * 70, b'"}'))
    for content, code, named in (
        (json.dumps({"text": "a" * 400}), "too_large", "--max-body"), (parts, "too_large", "--max-body"),
        (json.dumps({"text": "dog " * 35}), "too_long", "--max-request-tokens"),
        (json.dumps({"documents": [["a dog", "dog " * 15]]}), "too_long", "--max-sentence-tokens"),
    ):  # fmt: skip
        answer = client.post("/translate", content=content, headers=JSON)
        assert refused(answer) == (413, code)
        assert named in answer.text
    answer = client.post("/translate/file?name=a.txt", content=b"a\n" * 31)
    assert refused(answer) == (413, "too_long")
    assert "31 texts" in answer.text
    assert client.post("/translate", json={"documents": [["a dog"] * 5]}).status_code == 200
    ten, eleven = (client.post("/translate", json={"text": "a " * number}) for number in (9, 10))  # with the end
    assert (ten.status_code, refused(eleven)) == (200, (413, "too_long"))


def test_time(start: Start) -> None:
    client = start(request_timeout=0.2)
    documents = small_system.text(200, 30)
    assert refused(client.post("/translate", json={"documents": documents})) == (504, "late")
    streamed = client.post("/translate", json={"documents": documents}, headers={"accept": "application/x-ndjson"})
    assert streamed.status_code == 200
    assert json.loads(streamed.text.splitlines()[-1])["error"]["code"] == "late"
    assert client.service.worker.slots == 0  # type: ignore[attr-defined]


def test_a_stream_that_nobody_reads_is_given_up(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    sent: list[str] = []
    bodies = [{"type": "http.request", "body": b'{"text": "a cat."}'}]

    async def receive() -> Any:
        if not bodies:
            await asyncio.sleep(60)
        return bodies.pop()

    async def send(message: Any) -> None:
        sent.append(message["type"])
        if message["type"] == "http.response.body":
            await asyncio.sleep(60)

    headers = {"host": "localhost", "content-type": "application/json", "accept": "application/x-ndjson"}
    scope = {
        "type": "http", "method": "POST", "path": "/translate", "query_string": b"", "http_version": "1.1",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()], "client": ("127.0.0.1", 1),
    }  # fmt: skip
    asyncio.run(start(request_timeout=0.2).app(scope, receive, send))
    error = capsys.readouterr().err
    assert sent[0] == "http.response.start"
    assert "error=gone" in error
    assert "Traceback" not in error


TERMS = {"name": "a", "source_lang": "en", "target_lang": "de", "entries": "a\tb"}
#: A translation that is known, too long, between two texts.
KNOWN = [{"role": role, "content": text} for role, text in (("user", "a"), ("assistant", "a " * 101), ("user", "b"))]


def test_only_pages_of_its_own_and_names_of_its_own(start: Start) -> None:
    client = start(allowed_hosts=("mt.example",))
    for host in ("localhost:8000", "127.0.0.1:8000", "[::1]:8000", "MT.example"):
        assert client.get("/health", headers={"host": host}).status_code == 200
    for host in ("evil.example", "localhost.evil.example", "", "127.0.0.1.evil.example:8000"):
        assert refused(client.get("/", headers={"host": host})) == (421, "unknown_host")
    for origin in ("http://evil.example", "null", "http://localhost:9"):
        answer = client.post("/translate", json={"text": "a"}, headers={"origin": origin})
        assert refused(answer) == (403, "foreign_origin")
    answer = client.post("/translate", json={"text": "a"}, headers={"origin": "http://localhost"})
    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert refused(client.options("/translate", headers={"origin": "http://localhost"}))[0] == 405


def test_methods_and_paths(plain: TestClient) -> None:
    assert refused(plain.get("/translate"))[0] == 405
    assert refused(plain.post("/", json={}))[0] == 405
    assert plain.patch("/v2/usage").headers["allow"] == "GET, HEAD, POST"  # of two routes
    for path in ("/no", "/translate/", "/..%2f..%2fetc/passwd", "/static/page.js"):
        assert refused(plain.get(path)) == (404, "not_found")


def test_every_answer_has_security_headers(plain: TestClient) -> None:
    for answer in (plain.get("/"), plain.get("/nothing"), plain.get("/metrics"), plain.post("/translate")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"


def test_health_and_readiness(start: Start) -> None:
    client = start()
    assert client.get("/ready").json() == {"status": "ready"}
    client.service.stopping = True  # type: ignore[attr-defined]
    assert client.get("/ready").status_code == 503
    assert refused(client.post("/translate", json={"text": "a"})) == (503, "stopping")
    client.service.worker.stop()  # type: ignore[attr-defined]
    assert client.get("/health").status_code == 503


def test_openapi_describes_every_route_and_what_comes_back(plain: TestClient) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    api = plain.get("/openapi.json").json()
    assert set(api["paths"]) == {route.path for route in plain.app._app.routes}  # type: ignore[attr-defined]
    request = {"$ref": "#/components/schemas/TranslateRequest", "components": api["components"]}
    jsonschema.validate({"documents": [["a"]]}, request)
    for wrong in ({"documents": ["a"]}, {"text": 1}, {"other": "a"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, request)
    error = {"$ref": "#/components/schemas/Error", "components": api["components"]}
    jsonschema.validate(plain.post("/translate", json={}).json(), error)


@pytest.mark.parametrize(
    ("path", "body", "what"),
    [
        ("/translate", {"text": "\n" * 100}, "lines: 101"),
        ("/translate", {"text": "\r" * 100}, "lines: 101"),
        ("/translate", {"text": "a " * 101}, "words: 101"),
        ("/translate", {"text": "a" * 1001}, "characters: 1,001"),
        ("/translate", {"documents": [["a " * 101]]}, "words: 101"),
        ("/translate", {"q": ["\n\n"] * 40, "source": "en", "target": "de"}, "(120)"),
        ("/translate", {"q": [""] * 101, "source": "en", "target": "de"}, "(101)"),
        ("/translate", {"q": "<b/>" * 101, "source": "en", "target": "de", "format": "html"}, "(101)"),
        ("/v2/translate", {"text": [1] * 101, "target_lang": "de"}, "text: 101"),
        ("/v2/translate", {"text": ["\n"] * 51, "target_lang": "de"}, "lines: 102"),
        ("/v2/translate", {"text": ["<a/>"] * 101, "target_lang": "de", "tag_handling": "xml"}, "text: 101"),
        ("/v2/translate", {"text": "<a/>" * 101, "target_lang": "de", "tag_handling": "xml"}, "elements: 101"),
        ("/v1/chat/completions", {"messages": [1] * 101}, "messages: 101"),
        ("/v1/chat/completions", {"messages": KNOWN}, "words: 101"),
        ("/v2/glossaries", {**TERMS, "entries": "\r" * 5001}, "5,001 lines"),
        ("/sessions", {"segments": [1] * 101}, "segments: 101"),
    ],
)
def test_texts_are_counted_before_anything_is_made_of_them(
    start: Start, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any], what: str
) -> None:
    """4 M newlines took 31 s and 1 GB; 2 M texts were converted in the event loop."""
    monkeypatch.setattr("docnmt.apps.serve.ask.Sentences.of", None)  # which would make something of them
    monkeypatch.setattr(FileProcesses, "ask", None)
    answer = start(max_request_tokens=100).post(path, json=body)
    assert answer.status_code in (400, 413)
    assert what in answer.text


def of(client: TestClient, address: str) -> TestClient:
    """A client of the same service at another address."""
    other = TestClient(client.app, base_url="http://localhost", client=(address, 1))
    other.service = client.service  # type: ignore[attr-defined]
    return other


def test_what_is_kept_has_a_share_for_each_client(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("docnmt.apps.serve.kept.MOST_GLOSSARIES", 8)
    monkeypatch.setattr("docnmt.apps.serve.kept.MOST_DOCUMENTS", 8)
    service = start(max_sessions=8)
    mine, other = of(service, "192.0.2.1"), of(service, "192.0.2.2")

    def glossary(client: TestClient) -> int:
        return client.post("/v2/glossaries", json=GOOD_TERMS).status_code

    def session(client: TestClient) -> int:
        return client.post("/sessions", json={}).status_code

    def document(client: TestClient) -> int:
        files = {"file": ("a.txt", b"a dog.\n")}
        return client.post("/v2/document", data={"target_lang": "de"}, files=files).status_code

    for kept, good, full in ((glossary, 201, 456), (session, 201, 503), (document, 200, 429)):
        assert [kept(mine) for _ in range(3)] == [good, good, full]
        assert kept(other) == good


def test_this_machine_has_all_the_room_for_documents() -> None:
    async def kept(client: str | None) -> int:
        jobs = FileJobs()
        with contextlib.suppress(Refused):
            for number in range(99):
                jobs.add(FileJob(id=str(number), name="a", client=client, source_size=MOST_BYTES // 16))
        return len(jobs)

    assert [asyncio.run(kept(client)) for client in (None, "192.0.2.1")] == [16, 4]


GOOD_TERMS = {**TERMS, "entries": "dog\ta tree"}


def test_a_glossary_is_its_owners(start: Start) -> None:
    client = start()
    mine, other = ({"authorization": f"DeepL-Auth-Key {key}"} for key in ("mine", "other"))
    name = client.post("/v2/glossaries", json=GOOD_TERMS, headers=mine).json()["glossary_id"]
    asked = {"text": "a", "source_lang": "en", "target_lang": "de", "glossary_id": name}

    def seen(headers: dict[str, str]) -> list[int]:
        where = f"/v2/glossaries/{name}"
        answers = [client.get(where, headers=headers), client.get(f"{where}/entries", headers=headers)]
        answers += [client.post("/v2/translate", json=asked, headers=headers)]
        return [len(client.get("/v2/glossaries", headers=headers).json()["glossaries"])] + [
            answer.status_code for answer in answers
        ]

    assert seen(other) == seen({}) == [0, 404, 404, 404]
    assert client.delete(f"/v2/glossaries/{name}", headers=other).status_code == 404
    assert seen(mine) == seen({"authorization": "Bearer mine"}) == [1, 200, 200, 200]
    assert client.delete(f"/v2/glossaries/{name}", headers=mine).status_code == 204
    client.post("/v2/glossaries", json=GOOD_TERMS)  # without a key: of its address, which is nobody's key
    keyless = ({"authorization": "testclient"}, {"authorization": "None"}, {})
    assert [seen(headers)[0] for headers in keyless] == [0, 0, 1]
    assert seen(mine) == [0, 404, 404, 404]


def test_a_client_is_an_address_or_a_network() -> None:
    clients = {
        "192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7", "2001:db8::1": "2001:db8::",
        "2001:db8::ffff": "2001:db8::", "2001:db8:0:1::1": "2001:db8:0:1::", "127.0.0.1": None, "::1": None, "": None,
        "unix": None,
    }  # fmt: skip
    assert {address: client_of(address, proxied=False) for address in clients} == clients
    assert client_of("127.0.0.1", proxied=True) == "127.0.0.1"
    assert client_of("::1", proxied=True) == "::1"
