"""OpenAI's chat API, as far as translation tools use it, and the prompts that they write.

The last message is translated; those before it are earlier texts of the same document, with their translations.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from docnmt.apps.serve.ask import Ask, Passage, Sentences, code_of, same
from docnmt.apps.serve.http import JSON, Endpoint, Refused, decoded, json_response
from docnmt.apps.serve.service import Call, Events, Placed, Service, Streamed
from docnmt.runtime.languages import seam

# Prompts of translation tools: the languages that a message names, and the text to translate.

#: The characters in which a prompt must name its languages.
HEAD = 1000
_BEGIN = re.compile(r"\s*(?:please\s+)?translate\b", re.IGNORECASE)
#: Patterns that end a prompt, before the text to translate.
_ENDS = (re.compile(r"\n[ \t]*\r?\n"), re.compile(r":[ \t]*\r?\n"), re.compile(r":[ \t]"))
#: The patterns below are for texts whose runs of white space are one character, so that their time is linear.
_TO = re.compile(r"\b(?:in)?to\s", re.IGNORECASE)
#: Patterns that lead to the target language in an instruction.
_INTO = re.compile(r"\btranslat\w*\b[^.:;\n]{0,200}?\b(?:in)?to\s", re.IGNORECASE)
_FROM_TO = re.compile(r"\bfrom\s([^\n]{1,40}?)\s(?:in)?to\s", re.IGNORECASE)


def prompted(content: str) -> tuple[str | None, str | None, str]:
    """Return the source and the target language that a message's prompt names, each or None, and the text after it.

    Tools write a prompt such as `Translate from English to German, keep line breaks:` before the text.
    """
    if _BEGIN.match(content, 0, HEAD):
        for pattern in _ENDS:
            end = pattern.search(content, 0, HEAD)
            text = content[end.end() :] if end else ""
            if end and text.strip():
                source, target = _languages_of(content[: end.start()], _TO)
                if target is not None:
                    return source, target, text.strip()
    return None, None, content


def instructed(content: str) -> tuple[str | None, str | None]:
    """Return the source and the target language that an instruction names (`Translate the text into German.`), each or
    None."""
    return _languages_of(content[:HEAD], _INTO)


def _languages_of(text: str, into: re.Pattern[str]) -> tuple[str | None, str | None]:
    """Return the languages of `from X to Y`, if both are known, else None and the first language after `into`."""
    lines = (" ".join(line.split()) for line in text.split("\n"))
    head = "\n".join(filter(None, lines)) + " "  # single spaces
    for match in _FROM_TO.finditer(head):
        source, target = code_of(match[1]), _named(head, match.end(), shortest=2)
        if source is not None and target is not None:
            return source, target
    targets = (_named(head, match.end()) for match in into.finditer(head))
    return None, next(filter(None, targets), None)


def _named(head: str, begin: int, shortest: int = 4) -> str | None:
    """Return the code of the language named at a position; None if there is none or it is too short (`to be`)."""
    words = re.split(r"\s+", head[begin : begin + 60], maxsplit=3)[:3]
    for count in range(len(words), 0, -1):
        name = " ".join(words[:count]).strip(" \"'`*.,;:!")
        if len(name) >= shortest and (code := code_of(name)) is not None:
            return code
    return None


# The API.


class Message(msgspec.Struct):
    """A turn of the chat."""

    role: str
    content: str | list[dict[str, Any]] | None = None


class StreamOptions(msgspec.Struct):
    """What a stream tells beside the text."""

    include_usage: bool | None = None


class ChatRequest(msgspec.Struct):
    """The body of POST /v1/chat/completions. Further fields, such as `temperature`, count for nothing."""

    messages: list[Message]
    model: str = ""
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: int | None = None
    tools: list[Any] | None = None
    response_format: dict[str, Any] | None = None


def openai_error(refused: Refused) -> tuple[int, dict[str, Any]]:
    """Return an error's status and body in OpenAI's form, whose clients expect another status for a full queue."""
    status = 429 if refused.code == "queue_full" else refused.status
    kind = "server_error" if status >= 500 else "rate_limit_error" if status == 429 else "invalid_request_error"
    code, message = {
        "unauthorized": ("invalid_api_key", "Incorrect API key provided: give the service's token as the API key"),
        "not_found": ("unknown_url", "Unknown request URL: this service has /v1/models and /v1/chat/completions"),
    }.get(refused.code, (refused.code, refused.message))
    return status, {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _model(service: Service) -> str:
    source, target = service.task.languages
    return f"docnmt-{source}-{target}"


def _ask(service: Service, payload: ChatRequest) -> Ask:
    """Return the last message as the text to translate, and those before it as its context."""
    if payload.n not in (None, 1):
        raise Refused(400, "unable", f"n: expected 1, as this service has one translation of a text, got {payload.n}")
    is_json = (payload.response_format or {}).get("type", "text") != "text"
    for name, unable in (("tools", bool(payload.tools)), ("response_format", is_json)):
        if unable:
            raise Refused(400, "unable", f"{name}: this service translates, and has no such thing; leave it out")
    passages: list[Passage] = []
    for number, message in enumerate(payload.messages, 1):
        content, role, problem = _content(message, number), message.role, None
        if role in ("system", "developer"):
            _check_languages(service, *instructed(content))
        elif role == "user":
            *languages, text = prompted(content)
            _check_languages(service, *languages)
            passages.append(Passage(text))
        elif role == "assistant" and passages and passages[-1].translation is None:
            passages[-1] = Passage(passages[-1].source, content)
        elif role == "assistant":
            problem = "an assistant's translates the user's before it, and there is none"
        else:
            problem = f"role: expected system, developer, user or assistant, got '{role[:40]}'"
        if problem is not None:
            raise Refused(400, "invalid_request", f"messages: message {number}: {problem}")
    if not payload.messages or payload.messages[-1].role != "user":
        raise Refused(400, "invalid_request", "messages: the last one must be of user: it is what is translated")
    return Ask(documents=[[*passages[:-1], Passage(passages[-1].source, wanted=True)]], name="messages")


def _content(message: Message, number: int) -> str:
    """Return a message's text."""
    if isinstance(message.content, str):
        return message.content
    parts = [part.get("text") if part.get("type") == "text" else None for part in message.content or ()]
    if not parts or not all(isinstance(part, str) for part in parts):
        raise Refused(400, "invalid_request", f"messages: message {number}: expected text as content")
    return "".join(str(part) for part in parts)


def _check_languages(service: Service, source: str | None, target: str | None) -> None:
    """Refuse languages that a message names, if it does, and that are not the service's."""
    ours, theirs = service.task.languages, (source, target)
    if not all(same(said or language, language) for said, language in zip(theirs, ours, strict=True)):
        message = f"this service translates from {ours[0]} to {ours[1]}, not from {source or ours[0]} to {target}"
        raise Refused(400, "wrong_language", message)


async def _chat(call: Call, request: Request) -> Response | Streamed:
    body, most = await call.service.body(request), call.service.config.max_request_tokens

    def read() -> tuple[ChatRequest, Ask]:
        payload = decoded(request, body, ChatRequest, most=most)
        return payload, _ask(call.service, payload)

    payload, ask = await asyncio.to_thread(read)
    sentences = await call.sentences(ask)
    answer = _Answer(_model(call.service), sentences)
    if payload.stream:
        usage = payload.stream_options is not None and bool(payload.stream_options.include_usage)
        return Streamed(_chunks(call, answer, sentences, usage=usage), as_events=True)
    await call.ready(sentences)
    return json_response(answer.whole(sentences.text(0)))


async def _chunks(call: Call, answer: _Answer, sentences: Sentences, *, usage: bool) -> Events:
    """Yield the chunks of a streamed answer."""
    yield answer.part({"role": "assistant", "content": ""})
    await asyncio.to_thread(call.accept, sentences)
    async with contextlib.aclosing(call.translated(sentences)) as events:
        async for _ in events:
            for text in answer.parts():
                yield answer.part({"content": text})
    for text in answer.parts():  # line breaks, where no sentence was to be translated
        yield answer.part({"content": text})
    yield answer.part({}, answer.finish)
    if usage:
        yield {**answer.part({}), "choices": [], "usage": answer.usage}


class _Answer:
    """The answer to a chat, complete or in parts while sentences become ready."""

    def __init__(self, model: str, sentences: Sentences) -> None:
        self._sentences, self._waiting = sentences, deque[tuple[str, int | None]]()
        before = ""  # each sentence: line breaks, or a space where sentences of a line are joined
        for number, line in enumerate(line for text in sentences.texts for line in text):
            before += "\n" if number else ""
            for sentence in line:
                self._waiting.append((before, sentence))
                before = " "
            before = "" if line else before
        self._waiting.append((before, None))
        self._last = ""  # the last translation that is not empty
        self._head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": model}

    def parts(self) -> Iterator[str]:
        """Yield the parts of the text that have become ready, in order: each sentence waits for those before it."""
        ready = self._sentences.ready
        while self._waiting:
            before, number = self._waiting[0]
            if number is not None and number not in ready:
                return
            self._waiting.popleft()
            text = "" if number is None else ready[number].text
            if before == " ":
                before = seam(self._last, text) if text else ""  # no space before an empty translation
            self._last = text or self._last
            if before or text:
                yield before + text

    def whole(self, text: str) -> dict[str, Any]:
        """Return the complete answer."""
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": self.finish}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": self.usage}

    def part(self, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        """Return one chunk of a streamed answer."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice]}

    @property
    def finish(self) -> str:
        """Why the answer ends, once it is complete."""
        return "length" if self._sentences.limited(0) else "stop"

    @property
    def usage(self) -> dict[str, int]:
        """The numbers of subwords read and written."""
        read = len(self._sentences.corpus.source.tokens)
        wanted = self._sentences.text_of()
        written = sum(len(self._sentences.ready[number].pieces) for number in wanted)
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def openai_endpoints(service: Service) -> list[Endpoint]:
    """Return OpenAI's addresses."""
    name = _model(service)
    model = {"id": name, "object": "model", "created": int(time.time()), "owned_by": "docnmt"}

    async def models(request: Request) -> Response:
        return json_response({"object": "list", "data": [model]})

    async def one(request: Request) -> Response:
        if (said := request.path_params["model"]) != name:
            message = f"the model '{said[:60]}' does not exist; this service has '{name}'"
            raise Refused(404, "model_not_found", message)
        return json_response(model)

    placed, summary = Placed(service, _chat), "the last message, translated"
    return [
        Endpoint("OpenAI", "/v1/models", "get", "the model", models),
        Endpoint("OpenAI", "/v1/models/{model}", "get", "the model", one),
        Endpoint("OpenAI", "/v1/chat/completions", "post", summary, placed, ChatRequest, (JSON,)),
    ]
