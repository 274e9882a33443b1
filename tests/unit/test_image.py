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


def test_all_that_is_installed_from_is_sent() -> None:
    first, *allowed = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert first == "*"
    sent = {line[1:] for line in allowed if line.startswith("!")}
    assert all((ROOT / name).exists() for name in sent)
    copied = [line.split()[1:] for line in re.findall(r"^COPY (?!--from).*", DOCKERFILE, re.MULTILINE)]
    assert copied == [["pyproject.toml", "/src/"], [".", "/src"]]
    project = PROJECT["project"]
    readme = project["readme"] if isinstance(project["readme"], str) else project["readme"]["file"]
    assert {"pyproject.toml", "docnmt", readme} <= sent
    assert all(list((ROOT).glob(each)) and each in sent for each in project.get("license-files", ["LICENSE"]))


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


def test_what_must_be_written_to_is_in_memory() -> None:
    (place,) = re.findall(r"\bHOME=(\S+)", DOCKERFILE)
    assert place in [mount.partition(":")[0] for mount in COMPOSE["tmpfs"]]


def test_it_is_open_to_this_machine_only() -> None:
    assert "--open" not in words("ENTRYPOINT") + words("CMD")
    assert "--open" in COMPOSE["command"]
    assert all(port.startswith("127.0.0.1:") for port in COMPOSE["ports"])


def test_what_it_uses_is_bounded() -> None:
    assert COMPOSE["mem_limit"] == COMPOSE["memswap_limit"]
    assert float(COMPOSE["cpus"]) > 0
    assert COMPOSE["pids_limit"] > ServeConfig().queue_length  # a thread for each document
    processes = int(COMPOSE["command"][COMPOSE["command"].index("--file-processes") + 1])
    assert processes * ServeConfig().file_memory < 1000 * int(COMPOSE["mem_limit"].rstrip("g"))
