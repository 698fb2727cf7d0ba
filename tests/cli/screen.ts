// A terminal for tests: what a person would have typed and seen, with runCli() in this process.

import { runCli } from "../../src/cli/cli.ts";
import type { Terminal } from "../../src/cli/output/terminal.ts";

export interface Screen {
  readonly terminal: Terminal;
  /** Everything on standard output so far. */
  out(): string;
  /** Everything on standard error so far. */
  err(): string;
  interrupt(): void;
  /** Runs one command line on this terminal. */
  run(...args: string[]): Promise<number>;
}

export interface ScreenOptions {
  readonly env?: Record<string, string>;
  readonly input?: string;
  /** What the person types when asked; a person who was not expected to be asked is an error. */
  readonly answer?: string;
  readonly isTerminal?: boolean;
  readonly columns?: number;
  readonly cwd?: string;
  readonly nowMs?: () => number;
}

/** Opens a terminal; a pipe unless the test says it is a window. */
export function openScreen(options: ScreenOptions = {}): Screen {
  let out = "";
  let err = "";
  let interrupted: (() => void) | undefined;
  const isTerminal = options.isTerminal ?? false;
  const terminal: Terminal = {
    out: (text) => out += text,
    err: (text) => err += text,
    readIn: () => Promise.resolve(options.input ?? ""),
    readLine: () =>
      options.answer === undefined
        ? Promise.reject(new Error("asked without an answer"))
        : Promise.resolve(options.answer),
    env: options.env ?? {},
    cwd: options.cwd ?? "/",
    inIsTerminal: isTerminal,
    outIsTerminal: isTerminal,
    errIsTerminal: isTerminal,
    columns: () => options.columns,
    onInterrupt(call) {
      interrupted = call;
      return () => interrupted = undefined;
    },
    nowMs: options.nowMs ?? (() => Date.now()),
  };
  return {
    terminal,
    out: () => out,
    err: () => err,
    interrupt: () => interrupted?.(),
    run: (...args) => runCli(args, terminal),
  };
}

/** A terminal whose commands go to the agent at this address. */
export function screenFor(url: string, options: ScreenOptions = {}): Screen {
  return openScreen({ ...options, env: { ZONEWRIGHT_URL: url, ...options.env } });
}

/** Milliseconds by which the clock of said() is ahead of the agent's. */
const AHEAD_MS = 90_000;

/** Runs one command line against an agent; the screen tells what it said. */
export async function said(
  agent: { readonly url: string; readonly clock: { now: string } },
  args: readonly string[],
  options: ScreenOptions = {},
): Promise<Screen & { readonly code: number }> {
  const nowMs = () => Date.parse(agent.clock.now) + AHEAD_MS;
  const screen = screenFor(agent.url, { nowMs, ...options });
  return { ...screen, code: await screen.run(...args) };
}

/** The JSON document on standard output. */
export function document(screen: Screen): unknown {
  return JSON.parse(screen.out());
}

/** What an agent may answer to a reader of events: a stream that ends before its first event. */
export function noEvents(id = "1"): Response {
  return new Response(`id: ${id}\n\n`, { headers: { "content-type": "text/event-stream" } });
}

/** A stream that says only that what was before it is no longer kept, and ends. */
export function resetEvents(position = "9"): Response {
  const data = JSON.stringify({ reason: "unknown", position });
  return new Response(`id: ${position}\nevent: reset\ndata: ${data}\n\n`, {
    headers: { "content-type": "text/event-stream" },
  });
}
