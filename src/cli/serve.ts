// `zonewright serve`: the agent itself, in the foreground. A signal stops it in order; a second signal ends
// the process at once.

import type { RunningAgent } from "../agent/agent.ts";
import type { Config } from "../config/settings.ts";
import { loadConfig } from "../config/sources.ts";
import { systemNow } from "../domain/instant.ts";
import { type Log, type LogFormat, type LogOptions, openLog } from "../metrics/log.ts";
import { openLogBudget, openLogStream } from "../metrics/log_output.ts";
import { openServiceNotice } from "../service/notice.ts";
import { EXIT, type ExitCode, type Invocation, type Noun } from "./command/command.ts";
import { CONFIG_NOTES, configFlags, configSources } from "./config/settings.ts";
import type { Terminal } from "./output/terminal.ts";
import { watchOperations } from "../runtime/stall_watch.ts";

/** The agent as a command. */
export const SERVE: Noun = {
  kind: "command",
  command: {
    summary: "run the agent",
    examples: [
      ["serve --dev", "a simulated host, state in ./run: nothing of this machine is touched"],
      ["serve --media-dir /zones/iso --index https://images.example.org", "a real host"],
      ["serve --listen off --socket /run/zonewright/zonewright.sock", "over a unix socket only"],
    ],
    flags: configFlags(),
    notes: CONFIG_NOTES,
    shared: "help",
    run: serve,
    hint: ({ code }) =>
      code === "conflict" ? "zonewright doctor --run state  examines the state folder" : undefined,
  },
};

async function serve(call: Invocation): Promise<ExitCode> {
  const config = await loadConfig(configSources(call));
  // All paths are absolute by now. The runtime starts no process once its own folder has been removed.
  Deno.chdir("/");
  const leftOut = { caller: 0, budget: 0, reader: 0 };
  const stream = openLogStream({
    write: (bytes) => Deno.stderr.write(bytes),
    lost: (lines) => {
      leftOut.reader += lines;
      log.warn("log lines lost: no reader took them", { lines });
    },
  });
  const budget = openLogBudget({
    leftOut,
    report: (note) =>
      openLog({ ...logging, budget: undefined }).warn("log lines left out", { ...note }),
  });
  const logging: LogOptions = {
    level: config.log_level.value,
    format: formatOf(config, call.terminal),
    writer: { name: "zonewright", hostname: Deno.hostname(), pid: Deno.pid },
    write: (line) => stream.write(line),
    now: systemNow,
    budget,
    leftOut,
  };
  const log = openLog(logging);
  const stop = listenForStop(log, () => stream.flush(FLUSH_MS));
  const notice = openServiceNotice(call.terminal.env, { log });
  const endWatch = endOnStall(logging);
  const started = Promise.withResolvers<RunningAgent>();
  reloadOnHangup(call, started.promise, logging, log);
  try {
    const { startAgent } = await import("../agent/agent.ts");
    const agent = await startAgent(config, { log });
    started.resolve(agent);
    await notice.ready(agent.urls);
    // A signal that came during the start takes effect now. agent.done rejects when the agent cannot
    // continue.
    const reason = await Promise.race([stop.asked, agent.done.then(() => undefined)]);
    if (reason !== undefined) {
      await notice.stopping();
      await agent.stop(reason);
    }
    await agent.done;
    budget.flush();
    await stream.flush(FLUSH_MS);
    // Callers that never finish their requests would keep the process alive: Deno cannot cut them off.
    Deno.exit(EXIT.ok);
  } finally {
    endWatch();
    stop.close();
    notice.close();
    budget.flush();
    await stream.flush(FLUSH_MS);
  }
}

/**
 * Ends the process when its runtime has stalled: the service manager starts another, which resumes the jobs.
 */
function endOnStall(logging: LogOptions): () => void {
  return watchOperations({
    operate: () => crypto.subtle.digest("SHA-256", new Uint8Array()),
    stalled(seconds) {
      // A write that waits could stall too.
      const write = (line: string) =>
        void Deno.stderr.writeSync(new TextEncoder().encode(`${line}\n`));
      openLog({ ...logging, budget: undefined, write }).error("runtime stalled", { seconds });
      Deno.exit(EXIT.failure);
    },
  });
}

/** How long the last log lines may wait for a slow reader when the agent ends, milliseconds. */
const FLUSH_MS = 500;

/**
 * Reads the configuration again on SIGHUP. One that cannot be read changes nothing. The listener is there
 * from the beginning, since a SIGHUP during the start would otherwise end the process.
 */
function reloadOnHangup(
  call: Invocation,
  started: Promise<RunningAgent>,
  logging: LogOptions,
  log: Log,
): void {
  const readAgain = async () => {
    try {
      const agent = await started;
      const read = () => loadConfig(configSources(call));
      const { applied, waiting, log_level } = await agent.reload(read);
      logging.level = log_level;
      log.info("configuration read again", {
        applied: applied.join(" "),
        restart_needed: waiting.join(" "),
      });
    } catch (error) {
      log.error("configuration not read again", { error });
    }
  };
  // One after another: two at once could leave some part with the older value.
  let reading = Promise.resolve();
  Deno.addSignalListener("SIGHUP", () => {
    reading = reading.then(readAgain);
  });
}

function formatOf(config: Config, terminal: Terminal): LogFormat {
  const format = config.log_format.value;
  if (format !== "auto") return format;
  if (terminal.errIsTerminal) return "text";
  const { os } = Deno.build;
  return os === "illumos" || os === "solaris" ? "bunyan" : "json";
}

const STOP_SIGNALS = ["SIGINT", "SIGTERM"] as const;
/**
 * Signals this soon after the first count as the same request: a terminal and a wrapper such as `timeout` or
 * `make` each send one. Milliseconds.
 */
const SAME_REQUEST_MS = 500;

/**
 * Listens for the signals that end the agent, until it is closed.
 * @param flush writes the last lines before a second signal ends the process
 */
export function listenForStop(
  log: Log,
  flush: () => Promise<void> = () => Promise.resolve(),
): { readonly asked: Promise<string>; close(): void } {
  const { promise: asked, resolve } = Promise.withResolvers<string>();
  let stoppingSinceMs: number | undefined;
  const onStop = STOP_SIGNALS.map((signal) => {
    const listener = () => {
      if (stoppingSinceMs !== undefined) {
        if (performance.now() - stoppingSinceMs < SAME_REQUEST_MS) return;
        log.warn("agent killed by a second signal", { signal });
        return void flush().then(() => Deno.exit(EXIT.interrupted));
      }
      stoppingSinceMs = performance.now();
      log.info("agent asked to stop", { signal });
      resolve(signal);
    };
    Deno.addSignalListener(signal, listener);
    return () => Deno.removeSignalListener(signal, listener);
  });
  // The runtime would open a debugger on this signal, which nobody may attach to the agent.
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
