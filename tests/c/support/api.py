"""An API on loopback that allows so many requests per second, says so, and writes down each that it has to refuse.

    api.py LIMIT PORT-FILE REFUSED-FILE
"""

import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

limit, port_file, refused_file = int(sys.argv[1]), sys.argv[2], sys.argv[3]
window = [0.0, 0]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        now = time.monotonic()
        if now >= window[0] + 1:
            window[:] = now, 0
        passes = window[1] < limit
        window[1] += passes
        if not passes:
            with open(refused_file, "a") as file:
                file.write(self.path + "\n")
        self.send_response_only(200 if passes else 429)
        self.send_header("X-RateLimit-Limit", str(limit))
        self.send_header("X-RateLimit-Remaining", str(limit - window[1]))
        self.send_header("X-RateLimit-Reset", f"{max(window[0] + 1 - now, 0):.3f}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Handler)
with open(port_file, "w") as file:
    file.write(str(server.server_address[1]))
server.serve_forever()
