"""docs/editors.md: what it promises, by a client of the protocol over standard input and output."""

from __future__ import annotations

import asyncio
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from support import PATIENCE, environment, run_sonde

lsp = pytest.importorskip("lsprotocol.types", reason="pygls is not installed")
from pygls.lsp.client import LanguageClient  # noqa: E402

PAGE = (Path(__file__).parents[2] / "docs" / "editors.md").read_text()
SCRIPT = next(iter(re.findall(r"```sonde\n(.*?)```", PAGE, re.S)))
SHOWN = next(iter(re.findall(r"```\n(Struct/union.*?)\n```", PAGE, re.S)))
URI = "file:///tmp/opens.bt"
DOCUMENT = lsp.TextDocumentIdentifier(URI)


class Client:
    """An editor with one script."""

    def __init__(self) -> None:
        self.client = LanguageClient("test", "1")
        self.published: asyncio.Queue[Any] = asyncio.Queue()
        self.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(lambda params: self.published.put_nowait(params))
        self.text, self.version = "", 0

    async def start(self) -> Any:
        await self.client.start_io(sys.executable, "-m", "sonde", "lsp", env=environment())
        answer = await self.client.initialize_async(lsp.InitializeParams(lsp.ClientCapabilities()))
        self.client.initialized(lsp.InitializedParams())
        return answer.capabilities

    async def write(self, text: str) -> list[Any]:
        """Open the script, or change it; its diagnostics."""
        self.text, self.version = text, self.version + 1
        if self.version == 1:
            item = lsp.TextDocumentItem(URI, "bpftrace", 1, text)
            self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        else:
            changed = lsp.VersionedTextDocumentIdentifier(version=self.version, uri=URI)
            whole = lsp.TextDocumentContentChangeWholeDocument(text)
            self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(changed, [whole]))
        return list((await asyncio.wait_for(self.published.get(), PATIENCE)).diagnostics)

    def at(self, part: str) -> Any:
        """The position after the first letter of ``part``, in UTF-16."""
        before = self.text[:self.text.index(part) + 1]
        return lsp.Position(before.count("\n"), len(before.rpartition("\n")[2].encode("utf-16-le")) // 2)

    def apply(self, edits: list[Any]) -> str:
        lines = self.text.split("\n")
        for edit in sorted(edits, key=lambda edit: -edit.range.start.line * 10 ** 6 - edit.range.start.character):
            line, end = edit.range.start.line, edit.range.end
            assert end.line == line
            units = lines[line].encode("utf-16-le")
            lines[line] = (units[:2 * edit.range.start.character] + edit.new_text.encode("utf-16-le")
                           + units[2 * end.character:]).decode("utf-16-le")
        return "\n".join(lines)

    async def end(self) -> int:
        await self.client.shutdown_async(None)
        self.client.exit(None)
        server = self.client._server
        assert server is not None
        return int(await asyncio.wait_for(server.wait(), PATIENCE))


async def follow_the_page() -> None:
    client = Client()
    try:
        await look_into_the_script(client)
        assert await client.end() == 0
    finally:
        await client.client.stop()


async def look_into_the_script(client: Client) -> None:
    capabilities = await client.start()
    assert capabilities.rename_provider and capabilities.semantic_tokens_provider.full
    shown = await client.write("/* ü😀 */ " + SCRIPT)
    assert [item.message for item in shown] == [SHOWN]
    context = lsp.CodeActionContext(shown)
    actions = await client.client.text_document_code_action_async(
        lsp.CodeActionParams(DOCUMENT, shown[0].range, context))
    assert [action.title for action in actions] == ["Change to filename"]
    fixed = client.apply(actions[0].edit.changes[URI])
    assert "args.filename)" in fixed and not await client.write(fixed)
    await ask_about(client)


async def ask_about(client: Client) -> None:
    ask, text = client.client, client.text
    for part, answer in (("tracepoint:", "uint8 * filename"), ("tracepoint:", "1 program, "), ("@opens", "@opens[("),
                         ("count", "count()"), ("comm", "comm: string[16]")):
        hover = await ask.text_document_hover_async(lsp.HoverParams(DOCUMENT, client.at(part)))
        assert answer in hover.contents.value
    listed = await ask.text_document_completion_async(lsp.CompletionParams(DOCUMENT, client.at("ilename")))
    assert [item.label for item in listed.items] == ["filename"]
    edits = await ask.text_document_rename_async(lsp.RenameParams(DOCUMENT, client.at("@opens"), "files"))
    assert client.apply(edits.changes[URI]) == text.replace("@opens", "@files")
    help = await ask.text_document_signature_help_async(lsp.SignatureHelpParams(DOCUMENT, client.at("args.")))
    assert help.signatures[0].label.startswith("str(")
    colours = await ask.text_document_semantic_tokens_full_async(lsp.SemanticTokensParams(DOCUMENT))
    assert len(colours.data) % 5 == 0 and colours.data
    folds = await ask.text_document_folding_range_async(lsp.FoldingRangeParams(DOCUMENT))
    assert [(fold.start_line, fold.end_line) for fold in folds] == [(0, 1)]
    symbols = await ask.text_document_document_symbol_async(lsp.DocumentSymbolParams(DOCUMENT))
    assert [symbol.name for symbol in symbols] == ["tracepoint:syscalls:sys_enter_openat"]
    assert not await client.write(text.replace("  @opens", "      @opens"))
    options = lsp.FormattingOptions(2, True)
    edits = await ask.text_document_formatting_async(lsp.DocumentFormattingParams(DOCUMENT, options))
    assert [edit.new_text for edit in edits] == [text]


def test_what_the_page_shows() -> None:
    asyncio.run(follow_the_page())
    assert "\n".join(line for line in run_checked() if line.startswith("HINT")) == \
        "\n".join(line.replace("hint", "HINT", 1) for line in SHOWN.splitlines()[1:])


def run_checked() -> list[str]:
    """What ``sonde check`` says of the page's script."""
    path = Path("/tmp") / "sonde-editors-page.bt"
    path.write_text(SCRIPT)
    try:
        return run_sonde("check", str(path)).stderr.splitlines()
    finally:
        path.unlink()


def test_settings_for_helix() -> None:
    settings = tomllib.loads(next(iter(re.findall(r"```toml\n(.*?)```", PAGE, re.S))))
    server = settings["language-server"]["sonde"]
    assert [server["command"], *server["args"]] == ["sonde", "lsp"]
    assert settings["language"][0]["language-servers"] == ["sonde"]
