"use strict";
// The language server's messages over the standard streams of a child process: JSON-RPC, framed by Content-Length.

const { spawn } = require("child_process");

class Connection {
  // `onNotification(method, params)` gets what the server says by itself, `onEnd(reason)` that it is gone.
  constructor(command, onNotification, onEnd) {
    this.waiting = new Map();
    this.number = 0;
    this.buffer = Buffer.alloc(0);
    this.onNotification = onNotification;
    this.onEnd = onEnd;
    this.process = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "ignore"] });
    this.process.stdin.on("error", () => {});
    this.process.stdout.on("data", (data) => this.take(data));
    this.process.on("error", (error) => this.end(error.message));
    this.process.on("exit", (status) => this.end(`it ended with status ${status}`));
  }

  take(data) {
    this.buffer = Buffer.concat([this.buffer, data]);
    for (;;) {
      const end = this.buffer.indexOf("\r\n\r\n");
      if (end < 0) return;
      const head = /Content-Length: *(\d+)/i.exec(this.buffer.toString("ascii", 0, end));
      const length = head ? Number(head[1]) : 0;
      if (this.buffer.length < end + 4 + length) return;
      const body = this.buffer.toString("utf8", end + 4, end + 4 + length);
      this.buffer = this.buffer.subarray(end + 4 + length);
      this.receive(JSON.parse(body));
    }
  }

  receive(message) {
    const waiting = this.waiting.get(message.id);
    if (message.method !== undefined) {
      if (message.id !== undefined) this.send({ id: message.id, result: null }); // it asks for nothing that we have
      else this.onNotification(message.method, message.params);
    } else if (waiting) {
      this.waiting.delete(message.id);
      if (message.error) waiting.reject(new Error(message.error.message));
      else waiting.resolve(message.result);
    }
  }

  send(message) {
    if (this.process.stdin.destroyed || this.ended) return;
    const body = Buffer.from(JSON.stringify({ jsonrpc: "2.0", ...message }));
    this.process.stdin.write(`Content-Length: ${body.length}\r\n\r\n`);
    this.process.stdin.write(body);
  }

  notify(method, params) {
    this.send({ method, params });
  }

  request(method, params) {
    if (this.ended) return Promise.resolve(null);
    const id = ++this.number;
    this.send({ id, method, params });
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
  }

  async start() {
    const answer = await this.request("initialize", { processId: process.pid, rootUri: null, capabilities: {
      textDocument: { rename: { prepareSupport: true } } } });
    this.notify("initialized", {});
    return answer.capabilities;
  }

  async stop() {
    this.onEnd = () => {};
    await this.request("shutdown", null);
    this.notify("exit", null);
    this.process.stdin.end();
  }

  end(reason) {
    if (this.ended) return;
    this.ended = true;
    for (const { resolve } of this.waiting.values()) resolve(null);
    this.waiting.clear();
    this.onEnd(reason);
  }
}

module.exports = { Connection };
