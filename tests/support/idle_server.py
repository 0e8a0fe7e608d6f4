"""A server that answers with {} and does nothing else, with two children, one in a session of its own.

python tests/support/idle_server.py FILE [--ignore-term] [--deaf] --port N …    # the three pids are written to FILE

It prints the path of each POST; `--deaf`: it refuses them.
"""

import os
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        print(self.path, flush=True)
        self.do_GET(404 if "--deaf" in sys.argv else 200)

    def do_GET(self, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: Any) -> None:
        """Nothing in the log."""


if __name__ == "__main__":
    if "--ignore-term" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pids = [os.getpid(), *(subprocess.Popen(["sleep", "300"], start_new_session=own).pid for own in (False, True))]
    file = Path(sys.argv[1])
    file.with_suffix(".new").write_text(" ".join(map(str, pids)))
    file.with_suffix(".new").rename(file)
    HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
