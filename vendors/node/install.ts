// Gives the program what it takes from Deno, on Node. Imported before the program itself.

import dns from "node:dns";
import fs from "node:fs";
import process from "node:process";
import os from "node:os";
import tty from "node:tty";
import { fileURLToPath } from "node:url";
import { setFlagsFromString } from "node:v8";
import { createHttpClient, fetch, HttpClient, openWebSocket } from "./client.ts";
import { connect, listen, listenTls } from "./connections.ts";
import { asDeno, asDenoLater, called, errors } from "./errors.ts";
import { files, FsFile, SeekMode } from "./files.ts";
import { ChildProcess, Command } from "./programs.ts";
import { KnownResponse, serve, serveConnection } from "./serve.ts";
import { OTHER_RUNTIME, type OtherRuntime } from "../../src/runtime/other_runtime.ts";
import { filesBeside } from "./embedded.ts";
import { cannotRefuse, majorOf, NO_CODE, optionsOf, revoke } from "./wall.ts";
import { AGENT_HEAP_MIB, WALLED_MEMORY_MIB } from "../../src/sandbox/guest_command.ts";

const PIECE_BYTES = 64 * 1024;
/** Between two tries of a stream that whoever started this program has made non-blocking, milliseconds. */
const RETRY_MS = 2;
const PAUSE = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
const WORDS: Readonly<Record<string, string>> = {
  sunos: "illumos",
  x64: "x86_64",
  arm64: "aarch64",
};

// Captured: a guest takes the names of the platform away from itself.
const { Atomics, Event, EventTarget, ReadableStream, setTimeout } = globalThis;
const self = fileURLToPath(import.meta.url);

/** Tries again where the other end is not ready. */
async function whenReady(attempt: () => Promise<number>): Promise<number> {
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof errors.WouldBlock)) throw error;
      await new Promise((resolve) => void setTimeout(resolve, RETRY_MS));
    }
  }
}

/** One of the three streams of this process. */
function standard(descriptor: number) {
  const writeSync = (bytes: Uint8Array): number => {
    for (;;) {
      try {
        return asDeno(() => fs.writeSync(descriptor, bytes));
      } catch (error) {
        if (!(error instanceof errors.WouldBlock)) throw error;
        Atomics.wait(PAUSE, 0, 0, RETRY_MS);
      }
    }
  };
  const read = async (buffer: Uint8Array): Promise<number | null> => {
    const count = await whenReady(() =>
      called<number>((done) => fs.read(descriptor, buffer, 0, buffer.length, null, done))
    );
    return count === 0 ? null : count;
  };
  let readable: ReadableStream<Uint8Array> | undefined;
  return {
    isTerminal: () => tty.isatty(descriptor),
    writeSync,
    write: (bytes: Uint8Array) =>
      whenReady(() =>
        called<number>((done) => fs.write(descriptor, bytes, 0, bytes.length, null, done))
      ),
    read,
    get readable() {
      return readable ??= new ReadableStream<Uint8Array>({
        async pull(controller) {
          const buffer = new Uint8Array(PIECE_BYTES);
          const count = await read(buffer);
          if (count === null) controller.close();
          else controller.enqueue(buffer.subarray(0, count));
        },
      }, { highWaterMark: 0 });
    },
  };
}

const listeners = new Map<Deno.Signal, Map<() => void, () => void>>();

function addSignalListener(signal: Deno.Signal, handler: () => void): void {
  const known = listeners.get(signal) ?? new Map<() => void, () => void>();
  listeners.set(signal, known);
  const listener = () => handler();
  known.set(handler, listener);
  process.on(signal, listener);
}

function removeSignalListener(signal: Deno.Signal, handler: () => void): void {
  const listener = listeners.get(signal)?.get(handler);
  if (listener !== undefined) process.off(signal, listener);
  listeners.get(signal)?.delete(handler);
}

const { platform, arch, versions } = process;
const major = majorOf(versions.node);
const system = WORDS[platform] ?? platform;
const machine = WORDS[arch] ?? arch;

/** What the program takes from Deno. */
const deno = {
  errors,
  args: process.argv.slice(2),
  pid: process.pid,
  build: {
    os: system,
    arch: machine,
    target: system === "illumos"
      ? `${machine}-unknown-illumos`
      : `${machine}-unknown-${platform}-gnu`,
    vendor: "unknown",
    standalone: true,
  },
  version: { deno: "", v8: versions.v8, typescript: "" },
  execPath: () => process.execPath,
  exit: (code = 0) => process.exit(code),
  cwd: () => process.cwd(),
  uid: () => process.getuid?.() ?? null,
  gid: () => process.getgid?.() ?? null,
  hostname: () => os.hostname(),
  umask: (mask?: number) => mask === undefined ? process.umask() : process.umask(mask),
  memoryUsage: () => process.memoryUsage(),
  env: {
    get: (name: string) => process.env[name],
    toObject: () => ({ ...process.env }),
  },
  stdin: standard(0),
  stdout: standard(1),
  stderr: standard(2),
  consoleSize() {
    const { columns, rows } = process.stdout;
    if (columns === undefined) throw new Error("Cannot measure the terminal: there is none");
    return { columns, rows };
  },
  kill: (pid: number, signal: Deno.Signal = "SIGTERM") =>
    void asDeno(() => process.kill(pid, signal)),
  addSignalListener,
  removeSignalListener,
  unrefTimer: (timer: { unref(): void }) => void timer.unref(),
  networkInterfaces: () =>
    Object.entries(os.networkInterfaces()).flatMap(([name, addresses = []]) =>
      addresses.map((address) => ({ name, ...address }))
    ),
  resolveDns: (name: string, type: "A" | "AAAA") =>
    asDenoLater(() => dns.promises.resolve(name, type)),
  Command,
  ChildProcess,
  FsFile,
  SeekMode,
  HttpClient,
  ...files,
  connect,
  listen,
  listenTls,
  serve,
  createHttpClient,
};

/** Deno's global events: a rejection that nobody handles ends the process unless a listener prevents it. */
function installEvents(): void {
  const target = new EventTarget();
  process.on("unhandledRejection", (reason, promise) => {
    const event = Object.assign(new Event("unhandledrejection", { cancelable: true }), {
      reason,
      promise,
    });
    target.dispatchEvent(event);
    if (event.defaultPrevented) return;
    const words = reason instanceof Error ? reason.stack : String(reason);
    fs.writeSync(2, `error: Uncaught (in promise) ${words}\n`);
    process.exit(1);
  });
  Object.assign(globalThis, {
    addEventListener: target.addEventListener.bind(target),
    removeEventListener: target.removeEventListener.bind(target),
    dispatchEvent: target.dispatchEvent.bind(target),
  });
}

const runtime: OtherRuntime = {
  name: "node",
  version: versions.node,
  program: process.execPath,
  file: self,
  options: optionsOf(self, major, { agent: AGENT_HEAP_MIB, walled: WALLED_MEMORY_MIB }),
  cannotRefuse: cannotRefuse(major),
  revoke,
  beside: (name) => filesBeside.get(name) ?? missing(name),
  serveConnection,
};

function missing(name: string): never {
  throw new errors.NotFound(`Cannot read ${name}: this build lacks it`);
}

// Node warns that its SQLite is young; operators cannot do anything about it.
process.removeAllListeners("warning");
// A guest or a decoder was started with it, and has no flags to change.
if (!process.execArgv.includes(NO_CODE)) setFlagsFromString(NO_CODE);
installEvents();
Object.defineProperty(globalThis, OTHER_RUNTIME, { value: runtime });
Object.assign(globalThis, { Deno: deno, fetch, Response: KnownResponse });
const OwnWebSocket = globalThis.WebSocket;
globalThis.WebSocket = new Proxy(OwnWebSocket, {
  construct: (_target, [url, options]) => openWebSocket(url, options),
});
