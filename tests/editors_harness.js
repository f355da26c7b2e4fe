// The extension for VS Code, with stand-ins for what VS Code has: node editors_harness.js EXTENSION SCRIPT COMMAND...
"use strict";
const fs = require("fs");
const Module = require("module");
const [extension, script, ...command] = process.argv.slice(2);
const text = fs.readFileSync(script, "utf8");
const record = (...names) => class { constructor(...values) { values.forEach((value, at) => { this[names[at]] = value; }); } };
const range = (a, b, c, d) => ({ start: { line: a, character: b }, end: { line: c, character: d } });
const handlers = {}, registered = {}, published = [], terminal = [], errors = [];
const uri = (path) => ({ toString: () => `file://${path}`, fsPath: path });
const document = { uri: uri(script), languageId: "bpftrace", version: 1, getText: () => text, save: async () => true };
const event = (name) => (handler) => { handlers[name] = handler; return {}; };
const languages = new Proxy({}, { get: (_, name) => name === "createDiagnosticCollection"
  ? () => ({ set: (where, items) => published.push(items) })
  : (language, provider) => { registered[name] = provider; return {}; } });
class WorkspaceEdit { constructor() { this.edits = []; } set(where, edits) { this.edits.push(...edits); } }
const vscode = {
  Range: class { constructor(...four) { Object.assign(this, range(...four)); } }, Position: record("line", "character"),
  TextEdit: record("range", "newText"), MarkdownString: record("value"), Diagnostic: record("range", "message", "severity"),
  CompletionItem: record("label", "kind"), CompletionList: record("items", "isIncomplete"), Hover: record("contents", "range"),
  SignatureHelp: record(), SignatureInformation: record("label", "documentation"), ParameterInformation: record("label"),
  Location: record("uri", "range"), CodeAction: record("title", "kind"), CodeActionKind: { QuickFix: "quickfix" },
  FoldingRange: record("start", "end", "kind"), FoldingRangeKind: { Comment: 1 }, SemanticTokens: record("data"),
  DocumentSymbol: record("name", "detail", "kind", "range", "selectionRange"), SemanticTokensLegend: record("types", "modifiers"),
  WorkspaceEdit, Uri: { parse: (text) => uri(text.replace("file://", "")) }, languages,
  commands: { registerCommand: (name, run) => { handlers[name] = run; return {}; } },
  workspace: { getConfiguration: () => ({ get: (name, usual) => (name === "command" ? command : usual) }), textDocuments: [document],
    onDidOpenTextDocument: event("open"), onDidChangeTextDocument: event("change"), onDidSaveTextDocument: event("save"),
    onDidCloseTextDocument: event("close") },
  window: { showErrorMessage: (message) => errors.push(message), activeTextEditor: { document }, showInputBox: async () => "42",
    createTerminal: () => ({ show: () => {}, sendText: (line) => terminal.push(line) }) },
};
const load = Module._load;
Module._load = (name, ...rest) => (name === "vscode" ? vscode : load(name, ...rest));

async function until(holds) {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 20));
}

async function main() {
  const { activate, deactivate } = require(extension);
  await activate({ subscriptions: [] });
  if (errors.length) return { errors };
  await until(() => published.length);
  const provider = registered.registerHoverProvider;
  const probe = { line: 0, character: 3 };
  const member = text.split("\n").map((line, number) => ({ line: number, character: line.indexOf("filenam") + 1 }))
    .find((position) => position.character > 0);
  const results = {
    diagnostics: published[0], providers: Object.keys(registered), hover: (await provider.provideHover(document, probe)).contents.value,
    completion: (await provider.provideCompletionItems(document, member)).items.map((item) => item.label),
    actions: await provider.provideCodeActions(document, published[0][0].range),
    symbols: (await provider.provideDocumentSymbols(document)).map((symbol) => symbol.name),
    folds: await provider.provideFoldingRanges(document), colours: (await provider.provideDocumentSemanticTokens(document)).data.length,
    formatted: await provider.provideDocumentFormattingEdits(document),
    signature: (await provider.provideSignatureHelp(document, member)).signatures[0].label,
    definition: await provider.provideDefinition(document, { line: 1, character: 4 }),
    references: (await provider.provideReferences(document, { line: 1, character: 4 })).length,
    renamed: (await provider.provideRenameEdits(document, { line: 1, character: 4 }, "files")).edits.map((edit) => edit.newText),
    refused: await provider.prepareRename(document, probe).then(() => "", (error) => error.message),
  };
  for (const name of ["sonde.run", "sonde.cost", "sonde.flame"]) await handlers[name]();
  handlers.change({ document: { ...document, version: 2, getText: () => text.replace("filenam)", "filename)") } });
  await until(() => published.length > 1);
  await deactivate();
  return { ...results, then: published[1], terminal, errors };
}

main().then((results) => process.stdout.write(JSON.stringify(results)), (error) => { console.error(error); process.exit(1); });
