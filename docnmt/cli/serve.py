"""The command docnmt-serve: translate over HTTP."""

from __future__ import annotations

import sys

from docnmt.apps.options import ServeConfig
from docnmt.cli.command import Command, Given
from docnmt.cli.generation import check_one_translation, parse
from docnmt.runtime.system import UserError

COMMAND = Command(
    "docnmt-serve",
    """Translate over HTTP: POST /translate takes documents of sentences or running text and gives what
docnmt-translate gives, sentence by sentence as it is ready if the client wants; requests share the model's batches.
Clients of DeepL, LibreTranslate and OpenAI find their own forms at the same address; POST /sessions opens a document
that stays open while a person translates it. GET / is a page to translate in; /health, /ready, /metrics, /openapi.json
say how the service is and what it offers.""",
    """
docnmt-serve --path runs/bible
docnmt-serve --path runs/bible --port 9000 --token-file ~/.docnmt-token
docnmt-serve --path runs/bible --host 0.0.0.0 --token-file ~/.docnmt-token --proxy 192.0.2.7
curl -H 'Content-Type: application/json' -d '{"text": "In the beginning."}' http://127.0.0.1:8000/translate
curl -N -H 'Accept: application/x-ndjson' -H 'Content-Type: application/json' \\
     -d '{"documents": [["One sentence.", "Another one."]]}' http://127.0.0.1:8000/translate
""",
)


@COMMAND.main
def main(given: Given) -> None:
    """Parse the options and serve."""
    config = parse(COMMAND, given, ServeConfig)
    check_one_translation(config)
    try:
        from docnmt.apps.serve.run import serve
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] == "docnmt":
            raise
        raise UserError(f"docnmt-serve needs an extra ({error.name}): pip install 'docnmt[serve]'") from error

    serve(*(config[name] for name in ("command", "models", "memory", "generation", "search")))


if __name__ == "__main__":
    sys.exit(main())
