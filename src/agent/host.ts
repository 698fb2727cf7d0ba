// The host that the agent manages, as the configuration names it.

import { join } from "@std/path";
import type { HostSetting } from "../config/kinds.ts";
import { AgentError, messageOf, unreachable } from "../domain/error.ts";
import { randomUuid } from "../domain/id.ts";
import { sshTransport } from "../host/ssh/transport.ts";
import { localTransport, simulatedTransport, type Transport } from "../host/transport.ts";
import { runCommand } from "../host/command.ts";
import type { SelfCommand } from "../program/executable.ts";
import type { ConsoleStream, MachineReader } from "../http/context.ts";
import type { Meters } from "../metrics/meters.ts";
import type { AgentContext, BareContext } from "./context.ts";

/**
 * Warns of what the configuration names and the host lacks: the agent starts without it, since it
 * may come later, and jobs that need it fail with its name.
 */
export async function warnOfMissing({ config, log }: BareContext): Promise<void> {
  if (config.host.value.kind === "local") {
    const vmadm = config.vmadm.value;
    if (!await isThere(vmadm)) log.warn("vmadm is missing: no machine can be made", { vmadm });
  }
  for (const setting of [config.ssh_identity, config.ssh_known_hosts]) {
    const file = setting.value;
    if (file !== null && !await isThere(file)) log.warn("file for ssh is missing", { file });
  }
  for (const folder of config.media_dir.value) {
    if (!await isThere(folder)) log.warn("media folder is missing", { folder });
  }
}

async function isThere(path: string): Promise<boolean> {
  try {
    await Deno.stat(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** Opens the way to the host. @throws {AgentError} `invalid_argument` for a folder that cannot be used */
export function openTransport(
  { config, self, opened, log }: BareContext,
  stateDir: string,
): Transport {
  const host = config.host.value;
  switch (host.kind) {
    case "local":
      return localTransport({ vmadm: config.vmadm.value, zonesRoot: config.zones.value });
    case "simulated": {
      const simulator = join(stateDir, "simulator");
      opened("simulated host", () => powerOffSimulator(self, simulator));
      log.warn("host simulated", { folder: simulator });
      return simulatedTransport({ self, stateDir: simulator });
    }
    case "ssh":
      return openSshHost({ config, opened, log }, host, join(stateDir, "ssh"));
    default:
      return unreachable(host);
  }
}

/**
 * Opens the way to another machine, and tells at once in the log whether it leads there. The agent
 * starts in any case: the host may come later, and every call tries again.
 */
function openSshHost(
  { config, opened, log }: Pick<BareContext, "config" | "opened" | "log">,
  { destination, port }: HostSetting & { kind: "ssh" },
  folder: string,
): Transport {
  const transport = sshTransport({
    host: {
      destination,
      port,
      identityFile: config.ssh_identity.value,
      knownHostsFile: config.ssh_known_hosts.value,
      folder,
    },
    vmadm: config.vmadm.value,
    zonesRoot: config.zones.value,
    newMark: () => randomUuid().replaceAll("-", ""),
  });
  const stopped = new AbortController();
  opened("ssh connection", async () => {
    stopped.abort();
    await transport.close();
  });
  transport.connect(stopped.signal).then(
    () => log.info("host connected", { destination, port }),
    (error) => {
      if (!stopped.signal.aborted) log.warn("host unreachable", { reason: messageOf(error) });
    },
  );
  return transport;
}

// The engine of the simulated host, as the configuration names it. The choice is the simulator's own
// and stays in its folder; without one it stays as it is.

const DEADLINE_MS = 30_000;

/**
 * Chooses the engine of the simulated host before the first machine of this agent starts.
 * @throws {AgentError} `invalid_argument` when the engine cannot be had
 * @see docs/simulator.md, Engines
 */
export async function chooseSimulatedEngine(
  { config, self, log }: AgentContext,
  stateDir: string,
): Promise<void> {
  const engine = config.simulated_engine.value;
  if (engine === null || config.host.value.kind !== "simulated") return;
  const words = ["simulate", "--state", join(stateDir, "simulator"), "engine", engine];
  const { code, stdout, stderr } = await runCommand(self.program, [...self.args, ...words], {
    // The emulator is looked for where this agent would find it.
    env: { ...self.env, PATH: Deno.env.get("PATH") ?? "" },
    deadlineMs: DEADLINE_MS,
  });
  if (code !== 0) throw new AgentError("invalid_argument", stderr.trim());
  log.info("simulated engine", { engine: JSON.parse(stdout).engine });
}

// Ends a simulated host. Its machines are processes that outlive the calls that started them, as they
// do on a real host; when the agent that owns the host ends, they end too, as by a power cut.

const STOP_ALL_MS_MAX = 30_000;

/** @throws {AgentError} `host` when machines may be left running */
async function powerOffSimulator(self: SelfCommand, stateDir: string): Promise<void> {
  const args = [...self.args, "simulate", "--state", stateDir, "stop-all"];
  const { code, stderr } = await runCommand(self.program, args, {
    env: { ...self.env },
    deadlineMs: STOP_ALL_MS_MAX,
  });
  if (code === 0) return;
  throw new AgentError("host", `Cannot end the machines of the simulated host: ${stderr.trim()}`);
}

/** The reading side of vmadm, with the consoles that are open over it counted. */
export function countedConsoles(vmadm: MachineReader, { consoles }: Meters): MachineReader {
  return {
    ...vmadm,
    async connectVnc(address, options): Promise<ConsoleStream> {
      const stream = await vmadm.connectVnc(address, options);
      consoles.open += 1;
      consoles.opened += 1;
      let open = true;
      return {
        greeting: stream.greeting,
        read: (buffer) => stream.read(buffer),
        write: (bytes) => stream.write(bytes),
        close() {
          if (open) consoles.open -= 1;
          open = false;
          stream.close();
        },
      };
    },
  };
}
