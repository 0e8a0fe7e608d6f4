"""Debian's Chromium, headless, spoken to over its own protocol: what a page looks like and what it asks the network.

https://chromedevtools.github.io/devtools-protocol
"""

import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

NAMES = ("chromium", "chromium-browser", "google-chrome")
FOUND = next((path for path in map(shutil.which, NAMES) if path), None)
PATIENCE = 120  # seconds for what a page shows in one on a quiet machine
needed = pytest.mark.skipif(FOUND is None, reason=f"no browser: none of {', '.join(NAMES)} (apt-get install chromium)")


class Page:
    """One page in a browser."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection, self._numbers = connection, itertools.count(1)
        self.events: list[dict[str, Any]] = []
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._connection.send(json.dumps({"id": number, "method": method, "params": params}))
        while (message := self._receive()).get("id") != number:
            self.events.append(message)
        assert "error" not in message, message
        result: dict[str, Any] = message["result"]
        return result

    def open(self, where: Path | str, width: int = 1200, dark: bool = False) -> None:
        """Load a file or an address and wait until all of it is there."""
        self.events.clear()
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        started = self.send("Page.navigate", url=where.as_uri() if isinstance(where, Path) else where)
        if "loaderId" not in started:  # only what follows the # differs, the page stays
            return
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._receive())

    def value(self, expression: str) -> Any:
        """Of a JavaScript expression."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def inside(self, expression: str) -> Any:
        """The same in the one frame of the page, whose document the page itself may not look into."""
        end = time.monotonic() + PATIENCE
        while not (frames := self.send("Page.getFrameTree")["frameTree"].get("childFrames", [])):
            assert time.monotonic() < end, "no frame in the page"
            time.sleep(0.2)
        (frame,) = (child["frame"]["id"] for child in frames)
        world = self.send("Page.createIsolatedWorld", frameId=frame)["executionContextId"]
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True, contextId=world)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def click(self, text: str) -> None:
        """With the mouse, on the first thing that says exactly this."""
        self.wait_for(text)
        says_it = f"e => !e.children.length && e.innerText === {json.dumps(text)}"
        place = f"[...document.querySelectorAll('*')].find({says_it}).getBoundingClientRect().toJSON()"
        box = self.value(place)
        at = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        for type in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=type, button="left", clickCount=1, **at)

    def wait_for(self, *texts: str) -> None:
        """Until the reader can see all of them: a page that is a program fills itself after it has loaded."""
        end = time.monotonic() + PATIENCE
        while missing := [text for text in texts if text not in (self.value("document.body.innerText") or "")]:
            assert time.monotonic() < end, f"never shown: {missing}\n{self.value('document.body.innerText')}"
            time.sleep(0.2)

    @property
    def requested(self) -> list[str]:
        """The addresses that the page asked for since it was opened, its own first; data: needs no network."""
        found = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [address for address in found if not address.startswith("data:")]

    @property
    def complaints(self) -> list[str]:
        """What the browser's console says, for instance that the page's own policy kept something out."""
        entries = [e["params"]["entry"]["text"] for e in self.events if e.get("method") == "Log.entryAdded"]
        thrown = [str(e["params"]) for e in self.events if e.get("method") == "Runtime.exceptionThrown"]
        return entries + thrown

    def _receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._connection.recv(timeout=60))
        return message


@contextmanager
def browser(profile: Path, *more: str) -> Iterator[Page]:
    """A browser of its own with one page. `profile` is an empty folder for it, `more` are options."""
    assert FOUND is not None
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
    options += ["--disable-background-networking", "--disable-dev-shm-usage", "--remote-debugging-port=0"]
    options += ["--disable-features=IsolateSandboxedIframes"]  # its frame stays in the page, for `inside`
    command = [FOUND, *options, *more, f"--user-data-dir={profile}", "about:blank"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with connect(_address(process, profile), max_size=None) as connection:
            yield Page(connection)
    finally:
        process.terminate()
        process.wait(30)


def _address(process: "subprocess.Popen[bytes]", profile: Path) -> str:
    """Of the page, once the browser has said on which port it listens."""
    from urllib.request import urlopen

    said = profile / "DevToolsActivePort"
    while not (said.exists() and said.read_text().count("\n")):
        assert process.poll() is None, "the browser did not start"
        time.sleep(0.05)
    with urlopen(f"http://127.0.0.1:{said.read_text().splitlines()[0]}/json") as answer:
        pages = [target for target in json.load(answer) if target["type"] == "page"]
    address: str = pages[0]["webSocketDebuggerUrl"]
    return address
