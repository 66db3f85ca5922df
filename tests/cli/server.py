"""A server for the tests of the command line: over standard streams, or over HTTP with `--http`.

Over HTTP it prints its URL as the first line of standard output and serves until its standard input ends.
"""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TEXT = {"type": "object", "properties": {"text": {"type": "string"}, "n": {"type": "number"}}}
TOOLS = [
    {"name": "echo", "description": "Says what it was given.\nAll of it.", "inputSchema": TEXT},
    {"name": "fail", "description": "Fails.", "inputSchema": {"type": "object"}},
    {"name": "refuse", "description": "Answers with an error.", "inputSchema": {"type": "object"}},
    {"name": "count", "description": "Tells of its progress.", "inputSchema": {"type": "object"}},
    {"name": "shape", "description": "Has structure and no text.", "inputSchema": {"type": "object"}},
    {"name": "variable", "description": "Tells a variable of its own.", "inputSchema": TEXT},
]


def text(words, failed=False):
    return {"content": [{"type": "text", "text": words}], "isError": failed}


def call(params, notify):
    name, arguments = params["name"], params.get("arguments", {})
    if name == "echo":
        return text(json.dumps(arguments, sort_keys=True))
    if name == "fail":
        return text("it is broken", failed=True)
    if name == "count":
        token = params.get("_meta", {}).get("progressToken")
        for done in (1, 2):
            notify({"progressToken": token, "progress": done, "total": 2, "message": "step"})
        return text("counted")
    if name == "shape":
        return {"content": [], "structuredContent": {"sides": 3}}
    if name == "variable":
        return text(os.environ.get(arguments["text"], "unset"))
    return None


def answer(message, notify):
    """The answer to a request; None for a notification."""
    if "id" not in message:
        return None
    method, params = message["method"], message.get("params", {})
    result = None
    if method == "initialize":
        result = {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "scripted", "version": "1.2.3"},
            "instructions": "Be kind.",
        }
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call":
        result = call(params, notify)
    elif method == "ping":
        result = {}
    if result is None:
        return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32001, "message": "refused"}}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def progress(params):
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def over_streams():
    def write(message):
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    for line in sys.stdin:
        reply = answer(json.loads(line), lambda params: write(progress(params)))
        if reply is not None:
            write(reply)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        events = []
        reply = answer(message, lambda params: events.append(progress(params)))
        if reply is None:
            self.reply(202, "text/plain", b"")
        elif events:
            body = "".join(f"data: {json.dumps(event)}\n\n" for event in [*events, reply])
            self.reply(200, "text/event-stream", body.encode())
        else:
            self.reply(200, "application/json", json.dumps(reply).encode())

    def do_GET(self):
        self.reply(405, "text/plain", b"")

    do_DELETE = do_GET

    def reply(self, status, kind, body):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def over_http():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_address[1]}/mcp", flush=True)
    sys.stdin.read()


if "--http" in sys.argv:
    over_http()
else:
    over_streams()
