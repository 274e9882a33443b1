"""OpenAI's chat API, as far as translation tools use it.

The last message is translated; those before it are earlier texts of the same document, with their translations.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from docnmt.apps.serve.http_error import Refused
from docnmt.apps.serve.json_lines import EventStream
from docnmt.apps.serve.json_response import JsonResponse
from docnmt.apps.serve.offered_languages import same
from docnmt.apps.serve.prompts import instructed, prompted
from docnmt.apps.serve.request_body import read_request
from docnmt.apps.serve.request_texts import AskedTexts, Passage, RequestTexts, asked_texts, translations
from docnmt.apps.serve.service import Service
from docnmt.core.search.translate_corpus import Translation
from docnmt.runtime.languages import seam

#: Statuses that differ from this service's own: OpenAI's clients expect this one for a full queue.
OPENAI_STATUSES = {"queue_full": 429}
#: Messages that differ from those in this service's own form, by the code of the error.
OPENAI_WORDS = {
    "unauthorized": "Incorrect API key provided: give the service's token as the API key",
    "not_found": "Unknown request URL: this service has /v1/models and /v1/chat/completions",
}
#: Codes of errors that have another name in OpenAI's API.
CODES = {"unauthorized": "invalid_api_key", "not_found": "unknown_url"}


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


def openai_told(refused: Refused) -> tuple[int, dict[str, Any]]:
    """Return an error's status and body in OpenAI's form."""
    status = OPENAI_STATUSES.get(refused.code, refused.status)
    kind = "server_error" if status >= 500 else "rate_limit_error" if status == 429 else "invalid_request_error"
    message, code = OPENAI_WORDS.get(refused.code, refused.message), CODES.get(refused.code, refused.code)
    return status, {"error": {"message": message, "type": kind, "param": None, "code": code}}


class OpenAI:
    """The routes of OpenAI's API."""

    def __init__(self, service: Service) -> None:
        self._service = service
        source, target = service.task.languages
        self.model, self._begun = f"docnmt-{source}-{target}", int(time.time())

    @property
    def routes(self) -> list[Route]:
        """All routes of OpenAI's API."""
        return [
            Route("/v1/models", self.models, methods=["GET"]),
            Route("/v1/models/{model}", self.one, methods=["GET"]),
            Route("/v1/chat/completions", Chat(self._service, self), methods=["POST"]),
        ]

    async def models(self, request: Request) -> Response:
        """Answer GET /v1/models: a list with the only model."""
        return JsonResponse({"object": "list", "data": [self._about]})

    async def one(self, request: Request) -> Response:
        """Answer GET /v1/models/MODEL."""
        if (name := request.path_params["model"]) != self.model:
            message = f"the model '{name[:60]}' does not exist; this service has '{self.model}'"
            raise Refused(404, "model_not_found", message)
        return JsonResponse(self._about)

    @property
    def _about(self) -> dict[str, Any]:
        return {"id": self.model, "object": "model", "created": self._begun, "owned_by": "docnmt"}


class Chat:
    """The route POST /v1/chat/completions. The answer is complete, or a stream of server-sent events."""

    def __init__(self, service: Service, about: OpenAI) -> None:
        self._service, self._about = service, about

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        service, request = self._service, Request(scope, receive)
        with service.place(request.state.client) as deadline:
            body, most = await service.body(request), service.config.max_request_tokens
            asked = await read_request(request, body, ChatRequest, most=most)
            texts = await asked_texts(service, await asyncio.to_thread(self._texts, asked))
            answer = Answer(self._about.model, texts)
            if asked.stream:
                usage = asked.stream_options is not None and bool(asked.stream_options.include_usage)
                await self._stream(request, texts, answer, EventStream(send, deadline), deadline, usage=usage)
                return
            async for number, found in translations(service, request, texts, deadline):
                answer.found[number] = found
            (text,) = texts.answer(answer.found)
        await JsonResponse(answer.whole(text.text))(scope, receive, send)

    async def _stream(
        self, request: Request, texts: AskedTexts, answer: Answer, stream: EventStream, deadline: float, *, usage: bool
    ) -> None:
        await stream.begin()
        try:
            with self._service.told_of_the_end():
                await stream.write(answer.part({"role": "assistant", "content": ""}))
                async for number, found in translations(self._service, request, texts, deadline):
                    answer.found[number] = found
                    for text in answer.ready():
                        await stream.write(answer.part({"content": text}))
                for text in answer.ready():  # line breaks, where no sentence was to be translated
                    await stream.write(answer.part({"content": text}))
            await stream.write(answer.part({}, answer.finish))
            if usage:
                await stream.write({**answer.part({}), "choices": [], "usage": answer.usage})
        except Refused as refused:
            request.state.log["error"] = refused.code
            with contextlib.suppress(Refused):  # nobody may read it
                await stream.write(refused.told(request.scope)[1])
        await stream.done()

    def _texts(self, asked: ChatRequest) -> RequestTexts:
        """Return the last message as the text to translate, and those before it as its context.

        Raises:
            Refused: the chat is malformed, names languages that are not the service's, or uses an unsupported field.
        """
        if asked.n not in (None, 1):
            raise Refused(400, "unable", f"n: expected 1, as this service has one translation of a text, got {asked.n}")
        for name, unable in (
            ("tools", bool(asked.tools)),
            ("response_format", (asked.response_format or {}).get("type", "text") != "text"),
        ):
            if unable:
                raise Refused(400, "unable", f"{name}: this service translates, and has no such thing; leave it out")
        passages: list[Passage] = []
        for number, message in enumerate(asked.messages, 1):
            content, role = _content(message, number), message.role
            if role in ("system", "developer"):
                self._check(*instructed(content))
            elif role == "user":
                *languages, text = prompted(content)
                self._check(*languages)
                passages.append(Passage(text))
            elif role == "assistant" and passages and passages[-1].translation is None:
                passages[-1] = Passage(passages[-1].source, content)
            elif role == "assistant":
                missing = "an assistant's translates the user's before it, and there is none"
                raise Refused(400, "invalid_request", f"messages: message {number}: {missing}")
            else:
                expected = f"role: expected system, developer, user or assistant, got '{role[:40]}'"
                raise Refused(400, "invalid_request", f"messages: message {number}: {expected}")
        if not asked.messages or asked.messages[-1].role != "user":
            raise Refused(400, "invalid_request", "messages: the last one must be of user: it is what is translated")
        return RequestTexts(passages=[*passages[:-1], Passage(passages[-1].source, wanted=True)], name="messages")

    def _check(self, source: str | None, target: str | None) -> None:
        """Check the languages that a message names; None: it names none.

        Raises:
            Refused: a language is not the service's.
        """
        own = self._service.task.languages
        if not same(source or own[0], own[0]) or not same(target or own[1], own[1]):
            message = f"this service translates from {own[0]} to {own[1]}, not from {source or own[0]} to {target}"
            raise Refused(400, "wrong_language", message)


class Answer:
    """The answer to a chat, complete or in parts while sentences become ready.

    Attributes:
        found: the translations that are ready, by number of the sentence.
    """

    def __init__(self, model: str, asked: AskedTexts) -> None:
        self.found: dict[int, Translation] = {}
        self._asked, self._waiting = asked, deque(asked.parts())
        self._last = ""  # the last translation that is not empty
        self._head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": model}

    def ready(self) -> Iterator[str]:
        """Yield the parts of the text that have become ready, in order: each sentence waits for those before it."""
        while self._waiting:
            before, number = self._waiting[0]
            if number is not None and number not in self.found:
                return
            self._waiting.popleft()
            text = "" if number is None else self.found[number].text
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
        return "length" if any(each.limited for each in self.found.values()) else "stop"

    @property
    def usage(self) -> dict[str, int]:
        """The numbers of subwords read and written."""
        read = len(self._asked.corpus.source.tokens)
        written = sum(len(each.pieces) for each in self.found.values())
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _content(message: Message, number: int) -> str:
    """Return a message's text.

    Raises:
        Refused: the message has no text, or other content.
    """
    if isinstance(message.content, str):
        return message.content
    parts = [part.get("text") if part.get("type") == "text" else None for part in message.content or ()]
    if not parts or not all(isinstance(part, str) for part in parts):
        raise Refused(400, "invalid_request", f"messages: message {number}: expected text as content")
    return "".join(str(part) for part in parts)
