// `zonewright serve`: the agent itself, in the foreground. Starts it, and stops it in order when a
// signal asks for that; a second signal ends the process at once.

import type { Config } from "../config.ts";
import { loadConfig } from "../config_sources.ts";
import { systemNow } from "../domain/instant.ts";
import { type Log, openLog } from "../log.ts";
import type { Call, Noun } from "./command.ts";
import { EXIT, type ExitCode } from "./exit_code.ts";
import { CONFIG_NOTES, configFlags, configSources } from "./serve_flags.ts";
import type { Terminal } from "./terminal.ts";

/** The agent as a command. */
export const SERVE: Noun = {
  kind: "command",
  command: {
    summary: "run the agent",
    operands: "",
    operandsMin: 0,
    operandsMax: 0,
    examples: [
      ["serve --dev", "a simulated host, state in ./run: nothing of this machine is touched"],
      ["serve --media-dir /zones/iso --index https://images.example.org", "a real host"],
      ["serve --listen off --socket /run/zonewright/zonewright.sock", "only for those of a socket"],
    ],
    flags: configFlags(),
    notes: CONFIG_NOTES,
    shared: "help",
    run: serve,
  },
};

async function serve(call: Call): Promise<ExitCode> {
  const config = await loadConfig(configSources(call));
  const log = openLog({
    level: config.log_level.value,
    format: formatOf(config, call.terminal),
    write: (line) => call.terminal.err(`${line}\n`),
    now: systemNow,
  });
  const stop = listenForStop(log);
  try {
    const { startAgent } = await import("../agent.ts");
    const agent = await startAgent(config, { log });
    // A signal that came during the start is obeyed now. agent.done also ends by itself, rejected,
    // when the agent cannot go on.
    const reason = await Promise.race([stop.asked, agent.done.then(() => undefined)]);
    if (reason !== undefined) await agent.stop(reason);
    await agent.done;
    // Callers that never finish their requests would keep the process: Deno cannot cut them off.
    Deno.exit(EXIT.ok);
  } finally {
    stop.close();
  }
}

function formatOf(config: Config, terminal: Terminal): "text" | "json" {
  const format = config.log_format.value;
  if (format !== "auto") return format;
  return terminal.errIsTerminal ? "text" : "json";
}

const STOP_SIGNALS = ["SIGINT", "SIGTERM"] as const;
/**
 * Signals that come so soon after the first are the same wish: a terminal and a wrapper such as
 * `timeout` or `make` each send one. Milliseconds.
 */
const SAME_WISH_MS = 500;

/** Listens for the signals that end the agent, until it is closed. */
export function listenForStop(log: Log): { readonly asked: Promise<string>; close(): void } {
  const { promise: asked, resolve } = Promise.withResolvers<string>();
  let stoppingSinceMs: number | undefined;
  const onStop = STOP_SIGNALS.map((signal) => {
    const listener = () => {
      if (stoppingSinceMs !== undefined) {
        if (performance.now() - stoppingSinceMs < SAME_WISH_MS) return;
        log.warn("agent killed by a second signal", { signal });
        Deno.exit(EXIT.interrupted);
      }
      stoppingSinceMs = performance.now();
      log.info("agent asked to stop", { signal });
      resolve(signal);
    };
    Deno.addSignalListener(signal, listener);
    return () => Deno.removeSignalListener(signal, listener);
  });
  // The runtime would open a debugger on this signal: the agent must not give one to anybody.
  const ignore = () => log.warn("signal ignored", { signal: "SIGUSR1" });
  Deno.addSignalListener("SIGUSR1", ignore);
  return {
    asked,
    close() {
      for (const remove of onStop) remove();
      Deno.removeSignalListener("SIGUSR1", ignore);
    },
  };
}
