"""The server: the tools and pictures of :mod:`.declarations` by the protocol's own SDK, each request in a child."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from tempfile import TemporaryDirectory

import anyio
import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

from ...base.installation import start_again
from ...base.version import __version__
from ...errors import UsageError
from ...library.policy import Policy
from .declarations import INSTRUCTIONS, TOOLS, ModelTool
from .jobs import PICTURES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...base.json_checks import Json, JsonObject

LONGEST = 90.0     # s that a request may take beside the seconds of its run
_ENDING = 15.0     # s from the signal to the end
_LOOKING_UP = 2    # requests that trace nothing, at once
_WAITING = 16      # more of these that wait
_PREFIX = "sonde://recordings/"

Context = ServerRequestContext[object]


class Requests:
    """Carries out requests for user ``uid`` by ``policy``. Recordings are in a folder of this server's own, of which
    the oldest make room for new ones; or in ``folder``, of which none is removed."""

    def __init__(self, policy: Policy, uid: int, folder: str = "") -> None:
        self._policy = policy
        self._uid = uid
        self._own = None if folder else TemporaryDirectory(prefix="sonde-mcp-")
        self._folder = folder or (self._own.name if self._own else "")
        self._tracing = self._waiting = self._number = 0
        self._look_ups = asyncio.Semaphore(_LOOKING_UP)
        self._growing: set[str] = set()  # recordings of runs that go on

    def close(self) -> None:
        """Remove the recordings that nobody asked to keep."""
        if self._own is not None:
            self._own.cleanup()

    def recordings(self) -> list[str]:
        """The names of the recordings, the oldest first."""
        files = [entry for entry in os.scandir(self._folder) if entry.name.endswith(".sonde") and entry.is_file()]
        return [entry.name.removesuffix(".sonde") for entry in sorted(files, key=lambda each: each.stat().st_mtime_ns)]

    async def carry_out(self, tool: ModelTool, given: JsonObject) -> JsonObject:
        """What the child answers. UsageError for what is not asked of one."""
        arguments = tool.check(given)
        if tool.traces:
            if self._tracing >= self._policy.runs:
                raise UsageError(f"{self._tracing} runs go on, and the policy allows no more at once",
                                 ["wait for one of them, and try again"])
            self._tracing += 1
            try:
                seconds = self._policy.allowed_seconds(float(str(arguments.get("seconds", 0))))
                return await self._ask_child(tool.name, arguments, LONGEST + seconds)
            finally:
                self._tracing -= 1
        return await self.look_up(tool.name, arguments)

    async def look_up(self, name: str, arguments: JsonObject) -> JsonObject:
        """What a child answers that traces nothing: a few at once, and not too many that wait."""
        if self._waiting >= _WAITING:
            raise UsageError("too many requests at once", ["wait for some of them"])
        self._waiting += 1
        try:
            async with self._look_ups:
                return await self._ask_child(name, arguments, LONGEST)
        finally:
            self._waiting -= 1

    async def _ask_child(self, tool: str, arguments: JsonObject, longest: float) -> JsonObject:
        """Start one, and await its answer; end it if that takes longer than ``longest`` s, or nobody awaits it."""
        name, room = self._make_room() if tool in ("run", "record") else ("", 0)
        self._growing.add(name)
        try:
            return await self._await_child({"tool": tool, "arguments": arguments, "name": name, "room": room}, longest)
        finally:
            self._growing.discard(name)

    async def _await_child(self, job: JsonObject, longest: float) -> JsonObject:
        policy = dict(zip(self._policy._fields, self._policy.values()))
        request = json.dumps({**job, "policy": policy, "uid": self._uid, "folder": self._folder}).encode()
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(*start_again(), "mcp", "--job", stdin=pipe, stdout=pipe,
                                                     stderr=pipe, start_new_session=True)
        answering = asyncio.ensure_future(child.communicate(request))
        try:
            done, _ = await asyncio.wait([answering], timeout=longest)
            if not done:
                child.send_signal(signal.SIGTERM)  # a run then ends as by Ctrl-C, and answers
                await asyncio.wait([answering], timeout=_ENDING)
            if not answering.done():
                raise UsageError(f"it took more than {longest:.0f} s")
            return _read_answer(*answering.result(), child.returncode)
        finally:
            if not answering.done():
                with anyio.CancelScope(shield=True):
                    await _end_child(child, answering)

    def _make_room(self) -> tuple[str, int]:
        """The name of a new recording, and how many bytes it may have."""
        most = self._policy.disk << 20
        names = self.recordings()
        oldest = [name for name in names if name not in self._growing and self._own is not None]
        while oldest and self._used_bytes(names) > most // 2:
            names.remove(oldest[0])
            os.unlink(os.path.join(self._folder, f"{oldest.pop(0)}.sonde"))
        if self._used_bytes(names) >= most:
            raise UsageError(f"the recordings take the {self._policy.disk} MiB that the policy allows")
        self._number += 1
        while f"r{self._number}" in names:
            self._number += 1
        return f"r{self._number}", (most - self._used_bytes(names)) // max(self._policy.runs, 1)

    def _used_bytes(self, names: list[str]) -> int:
        return sum([os.stat(os.path.join(self._folder, f"{name}.sonde")).st_size for name in names])


async def _end_child(child: asyncio.subprocess.Process, answering: asyncio.Future[tuple[bytes, bytes]]) -> None:
    """End a child whose answer nobody awaits: gently, so that it takes its probes away, then at once."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if child.returncode is None:
            child.send_signal(number)
            await asyncio.wait([answering], timeout=_ENDING)
    answering.cancel()


def _read_answer(output: bytes, errors: bytes, status: int | None) -> JsonObject:
    """What the child wrote; an error if it was ended by a limit."""
    try:
        answer: JsonObject = json.loads(output)
        return answer
    except ValueError:
        last = errors.decode("utf-8", "replace").strip().splitlines()[-1:]
        return {"error": "it was ended by a limit of time or memory" if status and status < 0 else
                f"it ended without an answer ({status})", "hints": [*last]}


def make_server(requests: Requests) -> Server[object]:
    """The server of the protocol."""

    async def list_tools(context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_declare(tool) for tool in TOOLS.values()])

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            tool = TOOLS.get(params.name)
            if tool is None:
                raise UsageError(f"there is no tool {params.name[:64]!r}", [f"there are {', '.join(TOOLS)}"])
            answer = await requests.carry_out(tool, params.arguments or {})
        except UsageError as error:
            answer = {"error": error.message, "hints": [*error.hints]}
        return _call_result(answer)

    async def list_resources(context: Context, params: types.PaginatedRequestParams | None,
                             ) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[
            types.Resource(uri=f"{_PREFIX}{name}/{view}.svg", name=f"{name}/{view}", description=about,
                           mime_type="image/svg+xml")
            for name in requests.recordings() for view, about in PICTURES.items()])

    async def list_templates(context: Context, params: types.PaginatedRequestParams | None,
                             ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=[
            types.ResourceTemplate(uri_template=f"{_PREFIX}{{recording}}/{view}.svg", name=view, description=about,
                                   mime_type="image/svg+xml") for view, about in PICTURES.items()])

    async def read_resource(context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        return await _read_picture(requests, str(params.uri))

    return Server("sonde", version=__version__, title="Sonde, a Linux tracer", instructions=INSTRUCTIONS,
                  on_list_tools=list_tools, on_call_tool=call_tool, on_list_resources=list_resources,
                  on_list_resource_templates=list_templates, on_read_resource=read_resource)


async def _read_picture(requests: Requests, uri: str) -> types.ReadResourceResult:
    """A picture of a recording. MCPError if there is none."""
    from mcp.shared.exceptions import MCPError
    name, _, file = uri.removeprefix(_PREFIX).partition("/")
    view = file.removesuffix(".svg")
    try:
        if not uri.startswith(_PREFIX) or view not in PICTURES or len(name) > 64:
            raise UsageError(f"there is no {uri[:100]!r}")
        answer = await requests.look_up("picture", {"recording": name, "view": view})
    except UsageError as error:
        answer = {"error": error.message}
    if "error" in answer:
        raise MCPError(types.INVALID_PARAMS, str(answer["error"]))
    text = str(answer["result"]["text"])  # type: ignore[index, call-overload]
    return types.ReadResourceResult(contents=[
        types.TextResourceContents(uri=uri, mime_type="image/svg+xml", text=text)])


def _declare(tool: ModelTool) -> types.Tool:
    return types.Tool(name=tool.name, description=tool.about, input_schema=tool.schema, output_schema=tool.answer,
                      annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False))


def _call_result(answer: JsonObject) -> types.CallToolResult:
    """The answer, structured and as text; a refusal with its hints, for the model to act on."""
    result: Json = answer.get("result")
    if not isinstance(result, dict):
        return types.CallToolResult(content=[types.TextContent(type="text", text=json.dumps(answer))], is_error=True)
    if messages := answer.get("messages"):
        result["messages"] = messages
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=json.dumps(result))]
    pictures = result.get("pictures")
    for picture in pictures if isinstance(pictures, list) else []:
        assert isinstance(picture, dict)
        content.append(types.ResourceLink(type="resource_link", uri=str(picture["uri"]), name=str(picture["uri"]),
                                          description=str(picture["about"]), mime_type="image/svg+xml"))
    return types.CallToolResult(content=content, structured_content=result)


def serve(policy: Policy, uid: int, folder: str) -> None:
    """Serve standard input and output until the client closes them."""

    async def run() -> None:
        requests = Requests(policy, uid, folder)
        server = make_server(requests)
        try:
            async with stdio_server() as (read, write):
                await server.run(read, write, server.create_initialization_options())
        finally:
            requests.close()
    asyncio.run(run())
