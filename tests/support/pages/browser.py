"""Chromium, steered over its DevTools protocol, as a user sees pages, fills in forms and clicks."""

import base64
import itertools
import json
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from sessionizer_demo.local_airflow.installation import USER
from support.processes.ports import eventually

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--no-first-run", "--remote-debugging-port=0", "--window-size=1400,1000",
)  # fmt: skip
CODES = {"Tab": 9, "Enter": 13, "Escape": 27, "Space": 32, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39}
# a page of ours is in a frame of Airflow's
PAGES = "[document, ...[...document.querySelectorAll('iframe')].map((e) => e.contentDocument).filter(Boolean)]"
FIND = f"""(() => {{
  const seen = (e) => e.getClientRects().length > 0;
  const told = %s;
  const fits = (e) => told === null || e.textContent.trim() === told;
  return {PAGES}.flatMap((page) => [...page.querySelectorAll(%s)]).filter(seen).filter(fits)[%d] ?? null;
}})()"""
CENTRE = """(() => {
  const e = %s;
  if (!e || e.disabled) return null;  // a click on a disabled button does nothing
  e.scrollIntoView({block: 'center'});
  const [r, frame] = [e.getBoundingClientRect(), e.ownerDocument.defaultView.frameElement?.getBoundingClientRect()];
  return [r.x + r.width / 2 + (frame?.x ?? 0), r.y + r.height / 2 + (frame?.y ?? 0)];
})()"""
FOCUSED = "(document.activeElement?.contentDocument ?? document).activeElement"


@dataclass
class Browser:
    connection: ClientConnection
    _ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def open(self, address: str) -> None:
        self._call("Page.navigate", url=address)

    def log_in(self, address: str, password: str, user: str = USER) -> None:
        self.forget_user()
        self.open(address)
        self.fill("input[name=username]", user)
        self.fill("input[name=password]", password)
        self.click("button", "Sign in")
        self.wait_for_text("Active Dags")

    def ask(self, script: str) -> Any:
        """The value of a script in the page, None while the page has none."""
        found = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        return found.get("result", {}).get("value")

    def text(self) -> str:
        """All that the page shows, and its frames."""
        return str(self.ask(f"{PAGES}.map((page) => page.body?.innerText ?? '').join('\\n')") or "")

    def says(self, selector: str, script: str = "e.textContent") -> Any:
        """The value of a script on each element ``e`` that is there, of the page and of its frames."""
        found = f"[...page.querySelectorAll({json.dumps(selector)})]"
        return self.ask(f"{PAGES}.flatMap((page) => {found}.map((e) => {script}))")

    def forget_user(self) -> None:
        """Have no session any more, as after a time without a click."""
        self._call("Network.clearBrowserCookies")

    def wait_for_text(self, text: str, seconds: float = 90) -> None:
        eventually(lambda: text in self.text(), seconds, f"a page that says {text!r}")

    def click(self, selector: str, text: str | None = None, nth: int = 0, seconds: float = 90) -> None:
        x, y = self._centre_of(selector, text, nth, seconds)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def fill(self, selector: str, value: str, nth: int = 0, *, press_enter: bool = False) -> None:
        self.click(selector, nth=nth)
        self._call("Input.insertText", text=value)
        if press_enter:
            self.press("Enter")

    def press(self, key: str) -> None:
        text = {"Enter": "\r"}.get(key, "")
        for kind in ("keyDown", "keyUp"):
            self._call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, text=text, windowsVirtualKeyCode=CODES[key]
            )

    def tab_to(self, selector: str, most: int = 60) -> None:
        for _ in range(most):
            self.press("Tab")
            if self.ask(f"{FOCUSED}.matches({json.dumps(selector)})"):
                return
        raise AssertionError(f"{most} times Tab do not lead to {selector}")

    def show_as(self, width: int, height: int, theme: str = "light", motion: str = "no-preference") -> None:
        """Take this size in CSS pixels, and tell pages the user's choice of theme (`light`, `dark`) and of motion."""
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        choices = {"prefers-color-scheme": theme, "prefers-reduced-motion": motion}
        self._call(
            "Emulation.setEmulatedMedia", features=[{"name": name, "value": value} for name, value in choices.items()]
        )

    def run_first(self, script: str) -> None:
        self._call("Page.enable")
        self._call("Page.addScriptToEvaluateOnNewDocument", source=script)

    def picture(self, file: Path, *, whole: bool = False) -> None:
        """Write the page as a user sees it, as a PNG. ``whole``: also the part below the window."""
        file.parent.mkdir(parents=True, exist_ok=True)
        taken = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(taken["data"]))

    def _centre_of(self, selector: str, text: str | None, nth: int, seconds: float) -> tuple[float, float]:
        script = CENTRE % (FIND % (json.dumps(text), json.dumps(selector), nth))
        eventually(lambda: self.ask(script) is not None, seconds, f"{selector} {text or ''} on the page")
        x, y = self.ask(script)
        return float(x), float(y)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._ids)
        self.connection.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            told = json.loads(self.connection.recv(timeout=120.0))
            if told.get("id") == number:
                if told.get("error", {}).get("message") == "Inspected target navigated or closed":
                    return {}  # the answer was lost with the page that was asked
                assert "error" not in told, told
                result: dict[str, Any] = told["result"]
                return result


@contextmanager
def chromium() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    assert program, "this test needs a Chromium on the PATH"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            port_file = Path(profile) / "DevToolsActivePort"
            eventually(lambda: port_file.exists() and bool(port_file.read_text().strip()), 180, "a browser")
            port = int(port_file.read_text().split()[0])
            eventually(lambda: _pages_of(port), 180, "a page of the browser")
            with connect(_pages_of(port)[0], open_timeout=60, max_size=None) as connection:
                yield Browser(connection)
        finally:
            process.terminate()
            process.wait(120)


def _pages_of(port: int) -> list[str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
        pages = json.load(answer)
    return [str(page["webSocketDebuggerUrl"]) for page in pages if page["type"] == "page"]
