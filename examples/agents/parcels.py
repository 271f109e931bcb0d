"""The carrier's service, which the HTTP tools talk to: `python parcels.py` listens on 127.0.0.1:8765."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PARCELS = {"P1001": "out for delivery", "P1002": "lost in the post"}


class Carrier(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        number = self.path.rpartition("/")[2]
        known = number in PARCELS
        self._answer(200 if known else 404, {"number": number, "state": PARCELS.get(number, "unknown")})

    def do_POST(self) -> None:
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        # A careless service: it repeats the credentials it was given.
        self._answer(201, {"collection": "C77", **order, "for": self.headers["Authorization"]})

    def _answer(self, status: int, body: dict[str, object]) -> None:
        if self.headers["Authorization"] != f"Bearer {os.environ['PARCELS_TOKEN']}":
            status, body = 401, {"error": "unknown token"}
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format: str, *args: object) -> None:
        pass


def carrier() -> ThreadingHTTPServer:
    return ThreadingHTTPServer(("127.0.0.1", 8765), Carrier)


if __name__ == "__main__":
    carrier().serve_forever()
