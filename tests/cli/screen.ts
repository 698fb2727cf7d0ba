// A terminal for tests: what a person would have typed and seen, with runCli() in this process.

import { runCli } from "../../src/cli/cli.ts";
import type { Terminal } from "../../src/cli/terminal.ts";

export interface Screen {
  readonly terminal: Terminal;
  /** Everything on standard output so far. */
  out(): string;
  /** Everything on standard error so far. */
  err(): string;
  /** Presses Ctrl-C. */
  interrupt(): void;
  /** Runs one command line on this terminal. */
  run(...args: string[]): Promise<number>;
}

export interface ScreenOptions {
  readonly env?: Record<string, string>;
  readonly input?: string;
  readonly isTerminal?: boolean;
  readonly columns?: number;
  readonly cwd?: string;
  readonly nowMs?: () => number;
}

/** Opens a terminal; a pipe unless it is told to be a window. */
export function openScreen(options: ScreenOptions = {}): Screen {
  let out = "";
  let err = "";
  let interrupted: (() => void) | undefined;
  const isTerminal = options.isTerminal ?? false;
  const terminal: Terminal = {
    out: (text) => out += text,
    err: (text) => err += text,
    readIn: () => Promise.resolve(options.input ?? ""),
    env: options.env ?? {},
    cwd: options.cwd ?? "/",
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
