"use strict";
// Sonde in VS Code: the answers of `sonde lsp` as VS Code wants them, and commands that run Sonde in a terminal.

const vscode = require("vscode");
const { Connection } = require("./protocol");

const LANGUAGE = "bpftrace";
let connection = null;
let diagnostics = null;

const toRange = (r) => new vscode.Range(r.start.line, r.start.character, r.end.line, r.end.character);
const toPosition = (p) => ({ line: p.line, character: p.character });
const toEdit = (e) => new vscode.TextEdit(toRange(e.range), e.newText);
const markdown = (content) => new vscode.MarkdownString(content.value);
const at = (document, position) => ({ textDocument: { uri: document.uri.toString() }, position: toPosition(position) });
const whole = (document) => ({ textDocument: { uri: document.uri.toString() } });

function settings() {
  const all = vscode.workspace.getConfiguration("sonde");
  return { command: all.get("command", ["sonde"]), server: all.get("serverArguments", []), prefix: all.get("runPrefix", "sudo") };
}

function toWorkspaceEdit(edit) {
  const result = new vscode.WorkspaceEdit();
  for (const [uri, edits] of Object.entries(edit.changes || {})) result.set(vscode.Uri.parse(uri), edits.map(toEdit));
  return result;
}

function toDiagnostic(item) {
  const result = new vscode.Diagnostic(toRange(item.range), item.message, item.severity - 1);
  result.code = item.code;
  result.source = item.source;
  return result;
}

function toCompletion(item) {
  const result = new vscode.CompletionItem(item.label, item.kind - 1);
  result.detail = item.detail;
  result.sortText = item.sortText;
  result.filterText = item.filterText;
  if (item.documentation) result.documentation = markdown(item.documentation);
  result.range = toRange(item.textEdit.range);
  result.insertText = item.textEdit.newText;
  return result;
}

async function ask(method, params, convert) {
  const answer = connection ? await connection.request(method, params) : null;
  return answer === null || answer === undefined ? null : convert(answer);
}

const providers = {
  provideCompletionItems: (document, position) => ask("textDocument/completion", at(document, position),
    (list) => new vscode.CompletionList(list.items.map(toCompletion), list.isIncomplete)),
  provideHover: (document, position) => ask("textDocument/hover", at(document, position),
    (hover) => new vscode.Hover(markdown(hover.contents), hover.range && toRange(hover.range))),
  provideSignatureHelp: (document, position) => ask("textDocument/signatureHelp", at(document, position), (help) => {
    const result = new vscode.SignatureHelp();
    result.signatures = help.signatures.map((signature) => {
      const each = new vscode.SignatureInformation(signature.label, markdown(signature.documentation));
      each.parameters = signature.parameters.map((parameter) => new vscode.ParameterInformation(parameter.label));
      return each;
    });
    result.activeSignature = help.activeSignature;
    result.activeParameter = help.activeParameter;
    return result;
  }),
  provideDefinition: (document, position) => ask("textDocument/definition", at(document, position),
    (place) => new vscode.Location(vscode.Uri.parse(place.uri), toRange(place.range))),
  provideReferences: (document, position) => ask("textDocument/references",
    { ...at(document, position), context: { includeDeclaration: true } },
    (places) => places.map((place) => new vscode.Location(vscode.Uri.parse(place.uri), toRange(place.range)))),
  prepareRename: async (document, position) => {
    const range = await ask("textDocument/prepareRename", at(document, position), toRange);
    if (!range) throw new Error("Only variables, maps, macros, functions and tables of the script can be renamed.");
    return range;
  },
  provideRenameEdits: (document, position, newName) => ask("textDocument/rename",
    { ...at(document, position), newName }, toWorkspaceEdit),
  provideCodeActions: (document, range) => ask("textDocument/codeAction",
    { ...whole(document), range: { start: toPosition(range.start), end: toPosition(range.end) }, context: { diagnostics: [] } },
    (actions) => actions.map((action) => {
      const result = new vscode.CodeAction(action.title, vscode.CodeActionKind.QuickFix);
      result.edit = toWorkspaceEdit(action.edit);
      result.diagnostics = (action.diagnostics || []).map(toDiagnostic);
      return result;
    })),
  provideDocumentFormattingEdits: (document) => ask("textDocument/formatting",
    { ...whole(document), options: { tabSize: 2, insertSpaces: true } }, (edits) => edits.map(toEdit)),
  provideFoldingRanges: (document) => ask("textDocument/foldingRange", whole(document), (folds) => folds.map(
    (fold) => new vscode.FoldingRange(fold.startLine, fold.endLine,
      fold.kind === "comment" ? vscode.FoldingRangeKind.Comment : undefined))),
  provideDocumentSymbols: (document) => ask("textDocument/documentSymbol", whole(document), (symbols) => symbols.map(
    (each) => new vscode.DocumentSymbol(each.name, "", each.kind - 1, toRange(each.range), toRange(each.selectionRange)))),
  provideDocumentSemanticTokens: (document) => ask("textDocument/semanticTokens/full", whole(document),
    (tokens) => new vscode.SemanticTokens(new Uint32Array(tokens.data))),
};

function openDocument(document) {
  if (connection && document.languageId === LANGUAGE) {
    connection.notify("textDocument/didOpen", { textDocument: {
      uri: document.uri.toString(), languageId: LANGUAGE, version: document.version, text: document.getText() } });
  }
}

function follow(context) {
  const on = (event, handler) => context.subscriptions.push(event(handler));
  on(vscode.workspace.onDidOpenTextDocument, openDocument);
  on(vscode.workspace.onDidChangeTextDocument, ({ document }) => {
    if (connection && document.languageId === LANGUAGE) {
      connection.notify("textDocument/didChange", {
        textDocument: { uri: document.uri.toString(), version: document.version }, contentChanges: [{ text: document.getText() }] });
    }
  });
  on(vscode.workspace.onDidSaveTextDocument, (document) => {
    if (connection && document.languageId === LANGUAGE) connection.notify("textDocument/didSave", whole(document));
  });
  on(vscode.workspace.onDidCloseTextDocument, (document) => {
    if (connection && document.languageId === LANGUAGE) connection.notify("textDocument/didClose", whole(document));
  });
}

function receive(method, params) {
  if (method === "textDocument/publishDiagnostics") diagnostics.set(vscode.Uri.parse(params.uri), params.diagnostics.map(toDiagnostic));
  else if (method === "window/showMessage") vscode.window.showErrorMessage(`Sonde: ${params.message}`);
}

function register(context, capabilities) {
  const languages = vscode.languages;
  const legend = capabilities.semanticTokensProvider.legend;
  context.subscriptions.push(
    languages.registerCompletionItemProvider(LANGUAGE, providers, ...capabilities.completionProvider.triggerCharacters),
    languages.registerHoverProvider(LANGUAGE, providers),
    languages.registerSignatureHelpProvider(LANGUAGE, providers, ...capabilities.signatureHelpProvider.triggerCharacters),
    languages.registerDefinitionProvider(LANGUAGE, providers), languages.registerReferenceProvider(LANGUAGE, providers),
    languages.registerRenameProvider(LANGUAGE, providers), languages.registerCodeActionsProvider(LANGUAGE, providers),
    languages.registerDocumentFormattingEditProvider(LANGUAGE, providers),
    languages.registerFoldingRangeProvider(LANGUAGE, providers), languages.registerDocumentSymbolProvider(LANGUAGE, providers),
    languages.registerDocumentSemanticTokensProvider(LANGUAGE, providers,
      new vscode.SemanticTokensLegend(legend.tokenTypes, legend.tokenModifiers)));
}

async function startServer() {
  const { command, server } = settings();
  connection = new Connection([...command, "lsp", ...server], receive, (reason) => {
    connection = null;
    vscode.window.showErrorMessage(`Sonde's language server is not running: ${reason}. Is sonde-tracer[lsp] installed?`);
  });
  const begun = connection;
  try {
    const capabilities = await begun.start();
    vscode.workspace.textDocuments.forEach(openDocument);
    return capabilities;
  } catch (error) {
    return null; // the end of the connection has been reported
  }
}

async function restartServer() {
  if (connection) await connection.stop();
  return startServer();
}

const quote = (word) => (/^[\w./:=@%+-]+$/.test(word) ? word : `'${word.replace(/'/g, "'\\''")}'`);

function runInTerminal(title, words) {
  const { command, prefix } = settings();
  const terminal = vscode.window.createTerminal(title);
  terminal.show();
  terminal.sendText([prefix, ...[...command, ...words].map(quote)].filter(Boolean).join(" "));
}

async function runScript(...before) {
  const document = vscode.window.activeTextEditor && vscode.window.activeTextEditor.document;
  if (!document || document.languageId !== LANGUAGE) return;
  await document.save();
  runInTerminal("Sonde", [...before, document.uri.fsPath]);
}

async function drawFlameGraph() {
  const pid = await vscode.window.showInputBox({ prompt: "Process to sample for 10 seconds (empty: all)",
    validateInput: (text) => (/^\d*$/.test(text) ? null : "a process's number") });
  if (pid !== undefined) runInTerminal("Sonde flame", ["flame", ...(pid ? ["-p", pid] : []), "10"]);
}

async function activate(context) {
  diagnostics = vscode.languages.createDiagnosticCollection("sonde");
  const command = (name, run) => context.subscriptions.push(vscode.commands.registerCommand(name, run));
  context.subscriptions.push(diagnostics);
  command("sonde.run", () => runScript());
  command("sonde.cost", () => runScript("cost"));
  command("sonde.flame", drawFlameGraph);
  command("sonde.restart", restartServer);
  follow(context);
  const capabilities = await startServer();
  if (capabilities) register(context, capabilities);
}

async function deactivate() {
  if (connection) await connection.stop();
}

module.exports = { activate, deactivate };
