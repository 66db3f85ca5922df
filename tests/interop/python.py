"""Drives the official Python client through a plan that it reads from standard input, and
prints what came of it as one JSON object. `plan.rs` says what a plan holds."""

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from datetime import timedelta

from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl

PLAN = json.load(sys.stdin)
PATIENCE = PLAN.get("stepTimeoutMs", 30000) / 1000
PAGES = 100


def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


@asynccontextmanager
async def streams(target):
    if target.get("url", "").endswith("/sse"):
        async with sse_client(target["url"]) as (read, write):
            yield read, write, lambda: None
    elif "url" in target:
        async with streamable_http_client(target["url"]) as (read, write, session):
            yield read, write, session
    else:
        async with stdio_client(StdioServerParameters(**target)) as (read, write):
            yield read, write, lambda: None


class Driver:
    def __init__(self):
        self.session = None
        self.questions = []
        self.notices = []
        self.token = None
        self.changed = asyncio.Condition()

    async def hear(self, message):
        """Keeps what the server says unasked; a progress token is the id of its request."""
        notice = getattr(message, "root", None)
        if notice is None or not hasattr(notice, "method"):
            return
        async with self.changed:
            self.notices.append(notice.method)
            if isinstance(notice, types.ProgressNotification):
                self.token = notice.params.progressToken
            self.changed.notify_all()

    def note(self, method, params):
        """Keeps a question. Ids of pages are the gateway's own; what else is in them is nobody's to look at."""
        shown = plain(params) if params else {}
        self.questions.append({"method": method, "params": {k: v for k, v in shown.items() if k not in ("elicitationId", "_meta")}})

    async def sample(self, _context, params):
        self.note("sampling/createMessage", params)
        heard = types.TextContent(type="text", text=f"heard: {params.messages[-1].content.text}")
        return types.CreateMessageResult(role="assistant", content=heard, model="none", stopReason="endTurn")

    async def elicit(self, _context, params):
        self.note("elicitation/create", params)
        if params.mode == "url":
            return types.ElicitResult(action="accept")
        return types.ElicitResult(action="accept", content={"username": "ada", "email": "ada@example.org"})

    async def show_roots(self, _context):
        self.note("roots/list", None)
        return types.ListRootsResult(roots=[types.Root(uri="file:///interop/root", name="root")])

    def answers(self):
        """How the session answers, where it is to."""
        if not PLAN.get("answers"):
            return {}
        return {"sampling_callback": self.sample, "elicitation_callback": self.elicit, "list_roots_callback": self.show_roots}

    async def subscribe(self, step):
        return {"result": plain(await self.session.subscribe_resource(AnyUrl(step["uri"])))}

    async def unsubscribe(self, step):
        return {"result": plain(await self.session.unsubscribe_resource(AnyUrl(step["uri"])))}

    async def roots(self, _step):
        await self.session.send_roots_list_changed()
        return {"told": True}

    async def asked(self, _step):
        asked, self.questions = self.questions, []
        return {"asked": asked}

    async def list(self, step):
        what = step["what"]
        ask = {
            "tools": self.session.list_tools,
            "prompts": self.session.list_prompts,
            "resources": self.session.list_resources,
            "resourceTemplates": self.session.list_resource_templates,
        }[what]
        items, pages, cursor = [], 0, None
        while pages == 0 or (cursor is not None and pages < PAGES):
            page = await ask(params=types.PaginatedRequestParams(cursor=cursor) if cursor else None)
            items += plain(page)[what]
            cursor, pages = page.nextCursor, pages + 1
        return {"items": items, "pages": pages}

    async def call(self, step):
        reported = []

        async def progress(done, total, message):
            reported.append({k: v for k, v in {"progress": done, "total": total, "message": message}.items() if v is not None})

        wanted = step.get("progress", False)
        result = await self.session.call_tool(step["name"], step.get("arguments", {}), progress_callback=progress if wanted else None)
        return {"result": plain(result), "progress": reported} if wanted else {"result": plain(result)}

    async def cancel(self, step):
        async def progress(*_):
            pass

        self.token = None
        running = asyncio.create_task(self.session.call_tool(step["name"], step["arguments"], progress_callback=progress))
        async with self.changed:
            await self.changed.wait_for(lambda: self.token is not None)
        params = types.CancelledNotificationParams(requestId=self.token, reason="no longer wanted")
        await self.session.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return {"cancelled": True}

    async def read(self, step):
        return {"result": plain(await self.session.read_resource(AnyUrl(step["uri"])))}

    async def prompt(self, step):
        return {"result": plain(await self.session.get_prompt(step["name"], step.get("arguments", {})))}

    async def complete(self, step):
        kind = types.PromptReference if step["ref"]["type"] == "ref/prompt" else types.ResourceTemplateReference
        context = step.get("context", {}).get("arguments")
        return {"result": plain(await self.session.complete(kind(**step["ref"]), step["argument"], context))}

    async def ping(self, _step):
        return {"result": plain(await self.session.send_ping())}

    async def level(self, step):
        return {"result": plain(await self.session.set_logging_level(step["level"]))}

    async def parallel(self, step):
        return {"outcomes": await asyncio.gather(*(self.perform(each) for each in step["steps"]))}

    async def forget(self, _step):
        self.notices.clear()
        return {"forgotten": True}

    async def notified(self, step):
        async with self.changed:
            await self.changed.wait_for(lambda: all(method in self.notices for method in step["methods"]))
        return {"notified": step["methods"]}

    async def until(self, step):
        while True:
            outcome = await self.perform(step["step"])
            if step["contains"] in json.dumps(outcome, ensure_ascii=False):
                return outcome
            await asyncio.sleep(0.1)

    async def perform(self, step):
        try:
            return await asyncio.wait_for(getattr(self, step["op"])(step), PATIENCE)
        except McpError as fault:
            return {"error": {"code": fault.error.code, "message": fault.error.message}}
        except Exception as fault:  # a step that went wrong must not end the ones after it
            return {"error": {"code": None, "message": f"{type(fault).__name__}: {fault}"}}


async def main():
    driver = Driver()
    async with streams(PLAN["target"]) as (read, write, session_id):
        info = types.Implementation(name="interop-python", version="1.0.0")
        async with ClientSession(read, write, timedelta(seconds=PATIENCE), message_handler=driver.hear, client_info=info, **driver.answers()) as session:
            driver.session = session
            server = await asyncio.wait_for(session.initialize(), PATIENCE)
            outcomes = [await driver.perform(step) for step in PLAN["steps"]]
            report = {
                "offered": types.LATEST_PROTOCOL_VERSION,
                "revision": server.protocolVersion,
                "session": session_id(),
                "server": plain(server.serverInfo),
                "capabilities": plain(server.capabilities),
                "instructions": server.instructions,
                "outcomes": outcomes,
            }
    print(json.dumps(report, ensure_ascii=False))


asyncio.run(main())
