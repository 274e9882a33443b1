"""The image and the compose file, as far as it can be told without building them."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

from docnmt.apps.options import ModelsConfig, ServeConfig
from docnmt.apps.serve.http import OPEN
from docnmt.options import Section

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]["docnmt"]


def words(instruction: str) -> list[str]:
    """What stands behind an instruction's last occurrence, in its JSON form."""
    found: list[str] = json.loads(re.findall(rf"^{instruction} (\[.*\])", DOCKERFILE, re.MULTILINE)[-1])
    return found


def test_what_is_installed_and_started_is_there() -> None:
    extras = re.findall(r"extras\['(\w+)'\]", DOCKERFILE)
    assert {"serve", "documents"} == set(extras) <= set(PROJECT["project"]["optional-dependencies"])
    command, *options = [*words("ENTRYPOINT"), *words("CMD"), *COMPOSE["command"]]
    assert command in PROJECT["project"]["scripts"]
    assert words("CMD") == COMPOSE["command"][:2]
    sections = [Section("serve", ServeConfig), Section("models", ModelsConfig)]
    known = {setting.name for section in sections for setting in section.settings}
    assert {option[2:].replace("-", "_") for option in options if option.startswith("--")} <= known


def test_ports_and_paths_agree() -> None:
    port = str(ServeConfig().port)
    assert re.findall(r"^EXPOSE (\d+)", DOCKERFILE, re.MULTILINE) == [port]
    assert COMPOSE["ports"] == [f"127.0.0.1:{port}:{port}"]
    asked_port, path = re.findall(r"http://127\.0\.0\.1:(\d+)(/\w*)", DOCKERFILE)[0]
    assert asked_port == port
    assert path in OPEN
    assert words("CMD")[-1] == COMPOSE["volumes"][0].split(":")[1]


def test_it_has_no_rights_and_time_to_stop() -> None:
    (user,) = re.findall(r"^USER (\d+)", DOCKERFILE, re.MULTILINE)
    assert int(user) > 0
    assert DOCKERFILE.index("USER") > DOCKERFILE.rindex("RUN")
    assert (COMPOSE["read_only"], COMPOSE["cap_drop"]) == (True, ["ALL"])
    assert COMPOSE["security_opt"] == ["no-new-privileges:true"]
    assert COMPOSE["volumes"][0].endswith(":ro")
    assert float(COMPOSE["stop_grace_period"].rstrip("s")) > ServeConfig().grace


def test_it_is_open_to_this_machine_only() -> None:
    assert "--open" not in words("ENTRYPOINT") + words("CMD")
    assert "--open" in COMPOSE["command"]
    assert all(port.startswith("127.0.0.1:") for port in COMPOSE["ports"])
