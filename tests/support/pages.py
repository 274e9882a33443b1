"""The page of docnmt-serve in a browser."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

TEXT = "The dog sees a tree. A cat finds it.\n\nThe <b>old</b> house & the river."


def translate(page: Any, text: str = TEXT) -> None:
    from playwright.sync_api import expect

    page.get_by_label("Document").fill(text)
    page.get_by_role("button", name="Translate").click()
    expect(page.get_by_role("status")).to_contain_text("Done", timeout=30_000)


def picture(page: Any, name: str) -> None:
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=str(Path(folder) / f"{name}.png"))
