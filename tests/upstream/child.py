"""An MCP server of few words: what it does is the name of the tool that is called."""

import json
import os
import signal
import sys
import threading
import time

out = threading.Lock()


def write(text):
    with out:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def answer(message, result):
    write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}))


def call(message):
    params = message["params"]
    name, arguments = params["name"], params.get("arguments", {})
    if name == "exit":
        os._exit(9)
    elif name == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif name == "slow":
        time.sleep(arguments["seconds"])
        answer(message, {"slow": True})
    elif name == "hang":
        pass
    elif name == "progress":
        token = params["_meta"]["progressToken"]
        for value in (1, 2):
            write(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress",
                              "params": {"progressToken": token, "progress": value}}))
        answer(message, {})
    elif name == "large":
        answer(message, {"text": "x" * arguments["size"]})
    elif name == "noise":
        write("[INFO] not a message")
        write(json.dumps({"level": "info"}))
        answer(message, {})
    elif name == "string id":
        write(json.dumps({"jsonrpc": "2.0", "id": "odd", "result": {"odd": True}}))
    elif name == "both":
        write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}, "error": {"code": 1, "message": ""}}))
    elif name == "changed":
        write(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}))
        answer(message, {})
    elif name == "heard":
        answer(message, heard)
    elif name == "ask":
        write(json.dumps({"jsonrpc": "2.0", "id": "q", "method": "roots/list"}))
        answer(message, {})
    else:
        answer(message, {"pid": os.getpid(), "echo": arguments})


heard = []

if sys.argv[1:] == ["broken"]:
    print("boom", file=sys.stderr)
    sys.exit(3)
if sys.argv[1:2] == ["late"]:
    time.sleep(float(sys.argv[2]))

for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method", "answer")
    heard.append(message if method == "answer" else method if "id" in message else message)
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        answer(message, {"protocolVersion": version, "capabilities": {"tools": {}, "logging": {}},
                         "serverInfo": {"name": "child", "version": "1"}})
    elif method == "tools/call":
        threading.Thread(target=call, args=(message,), daemon=True).start()
    elif "id" in message and "method" in message:
        answer(message, {"tools": []})
