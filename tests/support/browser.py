"""A real browser for tests: Chromium without a window, driven over a pipe by the DevTools protocol. Standard library only."""

import json
import os
import shutil
import subprocess
import tempfile
import time

PATIENCE = 60  # seconds; a test that passes never waits so long
NAMES = ("chromium", "chromium-browser", "google-chrome")


def installed():
    """The browser's program; None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One browser with one page. `errors` has what the page reported to its console, `requests` every address that it asked for."""

    def __init__(self, width=1280, height=900):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self.out = os.pipe()
        self.into, from_browser = os.pipe()
        flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--remote-debugging-pipe",
            "--no-first-run",
            "--disable-background-networking",
        ]
        # The pipe's ends must be the descriptors 3 and 4 of the browser.
        shell = f"exec {installed()} {' '.join(flags)} --user-data-dir={self.profile.name} about:blank 3<&{to_browser} 4>&{from_browser}"
        self.process = subprocess.Popen(
            ["bash", "-c", shell],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self.profile.name},
        )
        os.close(to_browser)
        os.close(from_browser)
        self.received, self.number, self.session = b"", 0, None
        self.errors, self.requests = [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")
        self.resize(width, height)

    def close(self):
        os.close(self.out)  # the browser ends with its pipe
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.into)
        self.profile.cleanup()

    def message(self):
        """The next message of the browser."""
        while b"\0" not in self.received:
            data = os.read(self.into, 1 << 20)
            if not data:
                raise RuntimeError("the browser has ended")
            self.received += data
        text, _, self.received = self.received.partition(b"\0")
        return json.loads(text)

    def call(self, method, **parameters):
        """The result of a method of the protocol."""
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data) :]
        while True:
            message = self.message()
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
            self.note(message.get("method"), message.get("params", {}))

    def note(self, event, parameters):
        if event == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif event == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(parameters["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def open(self, url):
        """Opens a page, and forgets what the page before reported."""
        self.call("Page.navigate", url=url)
        self.wait(f"location.href.startsWith({json.dumps(url)}) && document.readyState === 'complete'")

    def value(self, expression):
        """The value of a JavaScript expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("exception", {}).get("description", expression))
        return result["result"].get("value")

    def wait(self, expression):
        """Waits until the expression is true in the page. Raises TimeoutError."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                if self.value(expression):
                    return
            except RuntimeError as error:
                if "context" not in str(error) and "ReferenceError" not in str(error):  # the page is being loaded
                    raise
            if time.monotonic() > end:
                raise TimeoutError(expression)
            time.sleep(0.02)

    def press(self, x, y, kind="mouseMoved"):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="none" if kind == "mouseMoved" else "left", clickCount=1)

    def picture(self, path):
        """Writes what the page looks like, PNG."""
        import base64

        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot")["data"]))
