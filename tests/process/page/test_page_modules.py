"""The modules of the page, tested in a browser by tests/support/pages/module_tests.js."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from support.pages.browser import Browser, chromium
from support.pages.page_alone import serve
from support.places import SUPPORT
from support.processes.fabricated_platform import Platform

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCRIPT = SUPPORT / "pages" / "module_tests.js"
NAMES = re.findall(r"^test\('([^']+)'", SCRIPT.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder: Path = tmp_path_factory.mktemp("page")
    (folder / "specs").mkdir()
    with serve(Platform(folder / "home", folder / "specs")) as page, chromium() as browser:
        browser.open(page.entrance)
        browser.wait_for_text("No stream yet")
        names = f"import('/tests/{SCRIPT.name}').then((found) => Object.keys((window.found = found).tests))"
        assert browser.ask(names) == NAMES
        yield browser


@pytest.mark.parametrize("name", NAMES)
def test_a_module(name: str, browser: Browser) -> None:
    run = f"await found.tests[{json.dumps(name)}]()"
    script = f"(async () => {{ try {{ {run}; return ''; }} catch (error) {{ return String(error); }} }})()"
    assert browser.ask(script) == ""
