// Deno's commands and child processes on Node's.

import { Buffer } from "node:buffer";
import child from "node:child_process";
import os from "node:os";
import process from "node:process";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { asDeno, called, denoError, errors } from "./errors.ts";

/** Pieces of output that wait for their reader before the program is left to wait. */
const PIECES_AHEAD = 4;
/** What a shell adds to the number of the signal that ended a program. */
const SIGNAL_EXIT = 128;

type Streams = Readonly<Record<"stdin" | "stdout" | "stderr", "piped" | "null" | "inherit">>;

const NODE_WORDS = { piped: "pipe", null: "ignore", inherit: "inherit" } as const;

/** Deno.Command. */
export class Command {
  readonly #program: string;
  readonly #options: Deno.CommandOptions;

  constructor(program: string | URL, options: Deno.CommandOptions = {}) {
    this.#program = typeof program === "string" ? program : fileURLToPath(program);
    this.#options = options;
  }

  #spawnOptions(defaults: Streams) {
    const { cwd, env, clearEnv, uid, gid } = this.#options;
    const stdio = (["stdin", "stdout", "stderr"] as const).map((name) =>
      NODE_WORDS[this.#options[name] ?? defaults[name]]
    );
    return {
      cwd: cwd === undefined || typeof cwd === "string" ? cwd : fileURLToPath(cwd),
      env: { ...(clearEnv === true ? {} : process.env), ...env },
      detached: this.#options.detached ?? false,
      stdio,
      ...(uid === undefined ? {} : { uid }),
      ...(gid === undefined ? {} : { gid }),
    };
  }

  spawn(): ChildProcess {
    return this.#spawn({ stdin: "inherit", stdout: "inherit", stderr: "inherit" });
  }

  #spawn(defaults: Streams): ChildProcess {
    const { args = [], signal } = this.#options;
    const options = this.#spawnOptions(defaults);
    const started = asDeno(() => child.spawn(this.#program, args, options));
    if (started.pid !== undefined) return new ChildProcess(started, started.pid, signal);
    // Node reports why in a later turn, Deno at once.
    started.on("error", () => {});
    const why = child.spawnSync(this.#program, args, { ...options, timeout: 1 }).error;
    throw denoError(why ?? new errors.NotFound(`Failed to spawn '${this.#program}'`));
  }

  async output(): Promise<Deno.CommandOutput> {
    return await this.#spawn({ stdin: "null", stdout: "piped", stderr: "piped" }).output();
  }
}

function statusOf(code: number | null, signal: NodeJS.Signals | null): Deno.CommandStatus {
  if (signal === null) return { success: code === 0, code: code ?? 1, signal: null };
  const number = os.constants.signals[signal];
  return { success: false, code: SIGNAL_EXIT + number, signal: signal as Deno.Signal };
}

/** Deno.ChildProcess. */
export class ChildProcess {
  readonly pid: number;
  readonly status: Promise<Deno.CommandStatus>;
  readonly #child: child.ChildProcess;
  #ended = false;
  #stdin: WritableStream<Uint8Array> | undefined;
  #stdout: ReadableStream<Uint8Array<ArrayBuffer>> | undefined;
  #stderr: ReadableStream<Uint8Array<ArrayBuffer>> | undefined;

  constructor(started: child.ChildProcess, pid: number, signal: AbortSignal | undefined) {
    this.#child = started;
    this.pid = pid;
    started.on("error", () => {});
    this.status = new Promise((resolve) => {
      started.once("exit", (code, ended) => {
        this.#ended = true;
        resolve(statusOf(code, ended));
      });
    });
    signal?.addEventListener("abort", () => this.#ended || this.kill("SIGTERM"), { once: true });
  }

  get stdin(): WritableStream<Uint8Array> {
    return this.#stdin ??= writableOf(piped(this.#child.stdin, "stdin"));
  }

  get stdout(): ReadableStream<Uint8Array<ArrayBuffer>> {
    return this.#stdout ??= readableOf(piped(this.#child.stdout, "stdout"));
  }

  get stderr(): ReadableStream<Uint8Array<ArrayBuffer>> {
    return this.#stderr ??= readableOf(piped(this.#child.stderr, "stderr"));
  }

  async output(): Promise<Deno.CommandOutput> {
    const { stdout, stderr } = this.#child;
    const [status, out, err] = await Promise.all([this.status, bytesOf(stdout), bytesOf(stderr)]);
    return { ...status, stdout: out, stderr: err };
  }

  kill(signal: Deno.Signal = "SIGTERM"): void {
    if (this.#ended) throw new TypeError("Child process has already terminated");
    asDeno(() => process.kill(this.pid, signal));
  }

  ref(): void {
    for (const one of [this.#child, ...this.#child.stdio]) refOf(one).ref?.();
  }

  unref(): void {
    for (const one of [this.#child, ...this.#child.stdio]) refOf(one).unref?.();
  }
}

/** A pipe is a socket, which has both. */
function refOf(one: unknown): Partial<Record<"ref" | "unref", () => void>> {
  return typeof one === "object" && one !== null ? one : {};
}

function piped<T>(stream: T | null, name: string): T {
  if (stream === null) throw new TypeError(`Cannot get '${name}': '${name}' is not piped`);
  return stream;
}

function writableOf(pipe: Writable): WritableStream<Uint8Array> {
  pipe.on("error", () => {});
  return new WritableStream({
    write: (bytes) => called<void>((done) => void pipe.write(bytes, (error) => done(error))),
    close: () => called<void>((done) => void pipe.end(() => done(null))),
    abort: () => void pipe.destroy(),
  });
}

function readableOf(pipe: Readable): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new ReadableStream<Uint8Array<ArrayBuffer>>({
    start(controller) {
      pipe.on("data", (piece: Uint8Array) => {
        controller.enqueue(new Uint8Array(piece));
        if ((controller.desiredSize ?? 0) <= 0) pipe.pause();
      });
      pipe.once("end", () => controller.close());
      pipe.once("error", (error) => controller.error(denoError(error)));
      pipe.pause();
    },
    pull: () => void pipe.resume(),
    cancel: () => void pipe.destroy(),
  }, { highWaterMark: PIECES_AHEAD });
}

async function bytesOf(pipe: Readable | null): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(Buffer.concat(pipe === null ? [] : await Array.fromAsync(pipe)));
}
