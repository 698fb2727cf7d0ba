// Gives the program what it takes from Deno, on Node. Run before the program itself.

import fs from "node:fs";
import process from "node:process";
import os from "node:os";
import { connect, connectTls, listen, listenTls } from "./connections.ts";
import { asDeno, asDenoLater, called, errors } from "./errors.ts";
import { files, SeekMode } from "./files.ts";
import { NODE_RUNTIME, type NodeRuntime } from "../../src/runtime/node.ts";
import { cannotRefuse, majorOf, NO_CODE, optionsOf, reservedDataBytes, WALL } from "./options.ts";
import { AGENT_HEAP_MIB, WALLED_MEMORY_MIB } from "../../src/sandbox/guest_command.ts";

// Evaluated when they are first used: they load much of Node, and guests, decoders and most commands do without.
declare function require(name: "./answers.ts"): typeof import("./answers.ts");
declare function require(name: "./client.ts"): typeof import("./client.ts");
declare function require(name: "./programs.ts"): typeof import("./programs.ts");
declare function require(name: "./serve.ts"): typeof import("./serve.ts");
declare function require(name: "./wall.ts"): typeof import("./wall.ts");
declare function require(name: string): string;

type Serve = typeof import("./serve.ts").serveConnection;

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
const { Atomics, Event, EventTarget, setTimeout } = globalThis;

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
    isTerminal: () => process.getBuiltinModule("node:tty").isatty(descriptor),
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
    target: `${machine}-unknown-${system === "illumos" ? system : `${platform}-gnu`}`,
    standalone: true,
  },
  version: { deno: "", v8: versions.v8, typescript: "" },
  execPath: () => process.execPath,
  exit: (code = 0) => process.exit(code),
  cwd: () => process.cwd(),
  chdir: (path: string) => process.chdir(path),
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
  // By the hosts file too.
  resolveDns: (name: string, type: "A" | "AAAA") =>
    asDenoLater(async () => {
      const { lookup } = process.getBuiltinModule("node:dns").promises;
      const found = await lookup(name, { all: true, family: type === "A" ? 4 : 6 });
      return found.map(({ address }) => address);
    }),
  SeekMode,
  ...files,
  connect,
  connectTls,
  listen,
  listenTls,
  get Command() {
    return require("./programs.ts").Command;
  },
  get serve() {
    return require("./serve.ts").serve;
  },
  get createHttpClient() {
    return require("./client.ts").createHttpClient;
  },
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

/** Names that the build writes into the program where it has those of the platform: they too load much of Node. */
const LATE = {
  KnownResponse: () => require("./answers.ts").KnownResponse,
  ClientSocket: () => require("./client.ts").ClientSocket,
} as const;

function installLate(): void {
  for (const [name, load] of Object.entries(LATE)) {
    const get = () => {
      const value: unknown = load();
      Object.defineProperty(globalThis, name, { value });
      return value;
    };
    Object.defineProperty(globalThis, name, { get, configurable: true });
  }
  const own = globalThis.fetch;
  globalThis.fetch = (input, init?: RequestInit & { client?: unknown }) =>
    init?.client === undefined ? own(input, init) : require("./client.ts").fetchBy(input, init);
}

// A guest or a decoder gets the real path, and may not ask for it.
const [, named = ""] = process.argv;
const self = process.execArgv.includes(WALL) ? named : fs.realpathSync(named);

const runtime: NodeRuntime = {
  name: "node",
  version: versions.node,
  program: process.execPath,
  file: self,
  options: optionsOf(self, major, { agent: AGENT_HEAP_MIB, walled: WALLED_MEMORY_MIB }),
  reservedDataBytes: reservedDataBytes(major),
  cannotRefuse: cannotRefuse(major),
  revoke: (keep) => require("./wall.ts").revoke(keep),
  beside: (name) => require(name),
  serveConnection: ((...given) => require("./serve.ts").serveConnection(...given)) satisfies Serve,
};

// Node warns that its SQLite is young; operators cannot do anything about it.
process.removeAllListeners("warning");
// A guest or a decoder was started with it, and has no flags to change.
if (!process.execArgv.includes(NO_CODE)) {
  process.getBuiltinModule("node:v8").setFlagsFromString(NO_CODE);
}
installEvents();
installLate();
Object.defineProperty(globalThis, NODE_RUNTIME, { value: runtime });
Object.assign(globalThis, { Deno: deno });
