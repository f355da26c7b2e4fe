"""``sonde lsp``: the Language Server Protocol over standard input and output, with pygls (the extra ``lsp``)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from ..base.version import __version__
from ..compiling import format_source
from ..errors import SondeError
from ..source import ERROR, Diagnostic, ExpandedSpan, Source, Span
from . import complete, describe, navigate, outline
from .actions import corrections
from .analysis import Document, Machine
from .positions import Lines

Answer = TypeVar("Answer")
PAUSE = 0.03  # seconds without a key before a script is checked
_KINDS = {kind.name.lower(): kind for kind in lsp.CompletionItemKind}
_SYMBOLS = {"clause": lsp.SymbolKind.Event, "macro": lsp.SymbolKind.Function, "fn": lsp.SymbolKind.Function,
            "table": lsp.SymbolKind.Struct, "c": lsp.SymbolKind.Struct, "typedef": lsp.SymbolKind.Struct,
            "config": lsp.SymbolKind.Namespace, "let": lsp.SymbolKind.Variable, "import": lsp.SymbolKind.Module}


class ScriptServer(LanguageServer):
    """The server: documents that are open, as they were when they were last looked into."""

    def __init__(self, machine: Machine) -> None:
        super().__init__("sonde", __version__, text_document_sync_kind=lsp.TextDocumentSyncKind.Full)
        self.machine = machine
        self._documents: dict[str, Document] = {}
        self._pending: dict[str, asyncio.TimerHandle] = {}

    def document(self, uri: str) -> Document:
        """The script as it is now."""
        text = self.workspace.get_text_document(uri).source
        known = self._documents.get(uri)
        if known is None or known.text != text:
            known = self._documents[uri] = Document(to_fs_path(uri) or uri, text, self.machine)
        return known

    def lines(self, text: str) -> Lines:
        encoding = self.workspace.position_encoding or "utf-16"
        return Lines(text, str(getattr(encoding, "value", encoding)))

    def offset(self, uri: str, position: lsp.Position) -> int:
        return self.lines(self.document(uri).text).offset(position.line, position.character)

    def range(self, text: str, start: int, end: int) -> lsp.Range:
        lines = self.lines(text)
        return lsp.Range(lsp.Position(*lines.position(start)), lsp.Position(*lines.position(end)))

    # --- findings -----------------------------------------------------------------------------------------

    def check_soon(self, uri: str) -> None:
        """Check a script when no key has been pressed for a moment."""
        self._forget_check(uri)
        self._pending[uri] = asyncio.get_running_loop().call_later(PAUSE, self.publish, uri, False)

    def publish(self, uri: str, whole: bool) -> None:
        """Send the findings; ``whole``: also those of the code generator."""
        self._forget_check(uri)
        document = self.document(uri)
        findings = document.compiled()[1] if whole else document.findings()
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(
            uri, [self.diagnostic(document, finding) for finding in findings]))

    def close(self, uri: str) -> None:
        """Forget a script, and its findings."""
        self._forget_check(uri)
        self._documents.pop(uri, None)
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    def _forget_check(self, uri: str) -> None:
        if (pending := self._pending.pop(uri, None)) is not None:
            pending.cancel()

    def diagnostic(self, document: Document, finding: Diagnostic) -> lsp.Diagnostic:
        """A finding as the protocol has it; one about another file stands at the script's beginning."""
        span = _span_within(finding.span, document.source)
        message = finding.message if span is not None or finding.span is None else f"{finding.span}: {finding.message}"
        start, end = (span.start, span.end) if span is not None else (0, len(document.source.line_text(1)))
        severity = lsp.DiagnosticSeverity.Error if finding.severity == ERROR else lsp.DiagnosticSeverity.Warning
        return lsp.Diagnostic(self.range(document.text, start, max(start, end)),
                              "\n".join([message, *[f"hint: {hint}" for hint in finding.hints]]),
                              severity, finding.code, source="sonde")

    def location(self, document: Document, span: Span) -> lsp.Location:
        """A place in this script or in another file."""
        here = span.source is document.source
        uri = from_fs_path(os.path.abspath(span.source.name)) or span.source.name
        return lsp.Location(uri, self.range(document.text if here else span.source.text, span.start, span.end))


def _span_within(span: Span | None, source: Source) -> Span | None:
    """The part of the script that a finding is about: of one in a macro, the call."""
    while span is not None and span.source.text is not source.text:
        span = span.within if isinstance(span, ExpandedSpan) else None
    return span


def _or_none(handler: Callable[..., Answer]) -> Callable[..., Answer | None]:
    """What the machine refuses to tell is no answer."""
    @wraps(handler)
    def answer(*arguments: Any) -> Answer | None:
        try:
            return handler(*arguments)
        except SondeError:
            return None
    return answer


# --- documents --------------------------------------------------------------------------------------------


def _opened(ls: ScriptServer, params: lsp.DidOpenTextDocumentParams) -> None:
    ls.machine.renew()
    ls.publish(params.text_document.uri, True)


def _changed(ls: ScriptServer, params: lsp.DidChangeTextDocumentParams) -> None:
    ls.check_soon(params.text_document.uri)


def _saved(ls: ScriptServer, params: lsp.DidSaveTextDocumentParams) -> None:
    ls.publish(params.text_document.uri, True)


def _closed(ls: ScriptServer, params: lsp.DidCloseTextDocumentParams) -> None:
    ls.close(params.text_document.uri)


# --- questions --------------------------------------------------------------------------------------------


@_or_none
def _complete(ls: ScriptServer, params: lsp.CompletionParams) -> lsp.CompletionList:
    uri = params.text_document.uri
    document, offset = ls.document(uri), ls.offset(uri, params.position)
    result = complete.complete(document, offset)
    items = [lsp.CompletionItem(
        each.label, kind=_KINDS.get(each.kind), detail=each.detail or None, sort_text=f"{at:04}",
        filter_text=document.text[each.start:offset] + each.label if each.start < offset else None,
        documentation=lsp.MarkupContent(lsp.MarkupKind.Markdown, each.documentation) if each.documentation else None,
        text_edit=lsp.TextEdit(ls.range(document.text, each.start, offset), each.label))
        for at, each in enumerate(result.items)]
    return lsp.CompletionList(result.cut, items)


@_or_none
def _hover(ls: ScriptServer, params: lsp.HoverParams) -> lsp.Hover | None:
    uri = params.text_document.uri
    document = ls.document(uri)
    known = describe.describe(document, ls.offset(uri, params.position))
    return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, known.text),
                     ls.range(document.text, known.start, known.end)) if known is not None else None


@_or_none
def _signature(ls: ScriptServer, params: lsp.SignatureHelpParams) -> lsp.SignatureHelp | None:
    uri = params.text_document.uri
    known = describe.describe_call(ls.document(uri), ls.offset(uri, params.position))
    if known is None:
        return None
    information = lsp.SignatureInformation(
        known.label, lsp.MarkupContent(lsp.MarkupKind.Markdown, known.documentation),
        [lsp.ParameterInformation(name) for name in known.parameters], known.active)
    return lsp.SignatureHelp([information], 0, known.active)


@_or_none
def _definition(ls: ScriptServer, params: lsp.DefinitionParams) -> lsp.Location | None:
    uri = params.text_document.uri
    document = ls.document(uri)
    span = navigate.find_definition(document, ls.offset(uri, params.position))
    return ls.location(document, span) if span is not None else None


@_or_none
def _references(ls: ScriptServer, params: lsp.ReferenceParams) -> list[lsp.Location]:
    uri = params.text_document.uri
    document = ls.document(uri)
    return [lsp.Location(uri, ls.range(document.text, use.start, use.end))
            for use in navigate.find_uses(document, ls.offset(uri, params.position))]


@_or_none
def _prepare_rename(ls: ScriptServer, params: lsp.PrepareRenameParams) -> lsp.Range | None:
    uri = params.text_document.uri
    document = ls.document(uri)
    named = navigate.renamed_range(document, ls.offset(uri, params.position))
    return ls.range(document.text, named.start, named.end) if named is not None else None


def _rename(ls: ScriptServer, params: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
    uri = params.text_document.uri
    document = ls.document(uri)
    try:
        edits = navigate.rename(document, ls.offset(uri, params.position), params.new_name)
    except SondeError as error:
        ls.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Error, error.message))
        return None
    return lsp.WorkspaceEdit({uri: [lsp.TextEdit(ls.range(document.text, part.start, part.end), name)
                                    for part, name in edits]})


@_or_none
def _actions(ls: ScriptServer, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    uri = params.text_document.uri
    document = ls.document(uri)
    start, end = ls.offset(uri, params.range.start), ls.offset(uri, params.range.end)
    return [lsp.CodeAction(
        each.title, lsp.CodeActionKind.QuickFix, [ls.diagnostic(document, each.finding)],
        edit=lsp.WorkspaceEdit({uri: [lsp.TextEdit(ls.range(document.text, each.start, each.end), each.text)]}))
        for each in corrections(document, document.findings(), start, end)]


@_or_none
def _format(ls: ScriptServer, params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
    document = ls.document(params.text_document.uri)
    formatted = format_source(document.source)
    return [] if formatted == document.text else \
        [lsp.TextEdit(ls.range(document.text, 0, len(document.text)), formatted)]


def _folds(ls: ScriptServer, params: lsp.FoldingRangeParams) -> list[lsp.FoldingRange]:
    return [lsp.FoldingRange(fold.first, fold.last, kind=lsp.FoldingRangeKind.Comment if fold.comment else None)
            for fold in outline.find_folds(ls.document(params.text_document.uri).scan)]


def _symbols(ls: ScriptServer, params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
    document = ls.document(params.text_document.uri)
    return [lsp.DocumentSymbol(each.name, _SYMBOLS[each.kind], whole, whole)
            for each in outline.list_symbols(document.scan)
            for whole in [ls.range(document.text, each.start, each.end)]]


def _colours(ls: ScriptServer, params: lsp.SemanticTokensParams) -> lsp.SemanticTokens:
    """Five numbers a token: lines and columns since the last one, length, type, modifiers; a token of several lines is
    one for each."""
    document = ls.document(params.text_document.uri)
    lines = ls.lines(document.text)
    data: list[int] = []
    line = column = 0
    for colour in outline.colour_tokens(document.scan):
        at = colour.start
        while at < colour.end:
            row, start = lines.position(at)
            following = lines.starts[row + 1] if row + 1 < len(lines.starts) else len(document.text)
            end = min(colour.end, at + len(document.text[at:following].rstrip("\r\n")))
            if end > at:
                length = lines.position(end)[1] - start
                data += [row - line, start - column if row == line else start, length, colour.type, colour.modifiers]
                line, column = row, start
            at = following
    return lsp.SemanticTokens(data)


_FEATURES: tuple[tuple[str, Any, Callable[..., Any]], ...] = (
    (lsp.TEXT_DOCUMENT_DID_OPEN, None, _opened),
    (lsp.TEXT_DOCUMENT_DID_CHANGE, None, _changed),
    (lsp.TEXT_DOCUMENT_DID_SAVE, None, _saved),
    (lsp.TEXT_DOCUMENT_DID_CLOSE, None, _closed),
    (lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions([".", ">", ":", "@", "$"]), _complete),
    (lsp.TEXT_DOCUMENT_HOVER, None, _hover),
    (lsp.TEXT_DOCUMENT_SIGNATURE_HELP, lsp.SignatureHelpOptions(["(", ","]), _signature),
    (lsp.TEXT_DOCUMENT_DEFINITION, None, _definition),
    (lsp.TEXT_DOCUMENT_REFERENCES, None, _references),
    (lsp.TEXT_DOCUMENT_PREPARE_RENAME, None, _prepare_rename),
    (lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(True), _rename),
    (lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions([lsp.CodeActionKind.QuickFix]), _actions),
    (lsp.TEXT_DOCUMENT_FORMATTING, None, _format),
    (lsp.TEXT_DOCUMENT_FOLDING_RANGE, None, _folds),
    (lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL, None, _symbols),
    (lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL,
     lsp.SemanticTokensLegend(list(outline.TOKEN_TYPES), list(outline.MODIFIERS)), _colours),
)


def make_server(machine: Machine) -> ScriptServer:
    """A server that has not begun."""
    server = ScriptServer(machine)
    for feature, options, handler in _FEATURES:
        server.feature(feature, options)(handler)
    return server
