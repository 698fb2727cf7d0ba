// Opens the managed host as configured, and ends the simulated one.

import { join } from "@std/path";
import type { HostSetting } from "../config/place_kinds.ts";
import { AgentError, messageOf, unreachable } from "../domain/error.ts";
import { randomUuid } from "../domain/id.ts";
import { runCommand } from "../host/program.ts";
import { describeResult } from "../host/program_output.ts";
import { sshTransport } from "../host/ssh/transport.ts";
import { localTransport, simulatedTransport, type Transport } from "../host/transport.ts";
import type { ConsoleStream, MachineReader } from "../http/machine_access.ts";
import type { Meters } from "../metrics/meters.ts";
import type { SelfCommand } from "../runtime/executable.ts";
import { absent } from "../runtime/regular_file.ts";
import type { EarlyParts, SharedParts } from "./shared_parts.ts";

/**
 * Warns of configured files that the host lacks. The agent starts anyway: they may be added later, and jobs that need
 * one fail with its name.
 */
export async function warnOfMissing({ config, log }: EarlyParts): Promise<void> {
  if (config.host.value.kind === "local") {
    const vmadm = config.vmadm.value;
    if (!await isThere(vmadm)) log.warn("vmadm not found: machines cannot be created", { vmadm });
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
  return await Deno.stat(path).catch(absent) !== undefined;
}

/** Names the managed host: this one by its own name, another one as ssh reaches it. */
export function hostName(host: HostSetting): string {
  switch (host.kind) {
    case "local":
      return Deno.hostname();
    case "simulated":
      return host.name;
    case "ssh":
      return host.destination.replace(/^.*@/, "");
    default:
      return unreachable(host);
  }
}

/**
 * Opens the transport to the host. @throws {AgentError} `invalid_argument` for an unusable folder
 */
export function openTransport(
  { config, self, opened, log }: EarlyParts,
  stateDir: string,
): Transport {
  const host = config.host.value;
  switch (host.kind) {
    case "local":
      return localTransport({ vmadm: config.vmadm.value, zonesRoot: config.zones.value });
    case "simulated": {
      const simulator = join(withoutLinks(stateDir), "simulator");
      opened("simulated host", () => powerOffSimulator(self, simulator));
      log.warn("host simulated", { folder: simulator });
      return simulatedTransport({ self, stateDir: simulator, name: host.name });
    }
    case "ssh":
      return openSshHost({ config, opened, log }, host, join(stateDir, "ssh"));
    default:
      return unreachable(host);
  }
}

/**
 * A folder by its real path, since nothing is placed in a zone that is reached through a link. One that is not there or
 * cannot be reached keeps its name, as the doctor finds it before the first start: opening it shows why.
 */
function withoutLinks(folder: string): string {
  try {
    return Deno.realPathSync(folder);
  } catch {
    return folder;
  }
}

/**
 * Opens a transport to another machine, and logs whether it can be reached. The agent starts in any case: the host may
 * come up later, and every call tries again.
 */
function openSshHost(
  { config, opened, log }: Pick<EarlyParts, "config" | "opened" | "log">,
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

const ENGINE_MS_MAX = 30_000;

/**
 * Chooses the engine of the simulated host before this agent starts a machine. The simulator keeps the choice in its
 * folder; without the setting it stays unchanged.
 * @throws {AgentError} `invalid_argument` when the engine is not available
 * @see docs/simulator.md, Engines
 */
export async function chooseSimulatedEngine(
  { config, self, log }: SharedParts,
  stateDir: string,
): Promise<void> {
  const engine = config.simulated_engine.value;
  if (engine === null || config.host.value.kind !== "simulated") return;
  const words = ["simulate", "--state", join(stateDir, "simulator"), "engine", engine];
  const result = await runCommand(self.program, [...self.args, ...words], {
    // Finds the emulator on the agent's PATH.
    env: { ...self.env, PATH: Deno.env.get("PATH") ?? "" },
    deadlineMs: ENGINE_MS_MAX,
  });
  if (result.code !== 0) {
    const message = `Cannot use the engine ${JSON.stringify(engine)}: ` +
      `"zonewright ${words.join(" ")}" ${describeResult(result)}`;
    throw new AgentError("invalid_argument", message);
  }
  log.info("simulated engine", { engine: JSON.parse(result.stdout).engine });
}

const STOP_ALL_MS_MAX = 30_000;

/**
 * Ends the machines of a simulated host. They are processes that outlive the calls that started them, as on a real host;
 * when the agent that owns the host ends, they end too, as in a power cut.
 * @throws {AgentError} `host` when machines may still run
 */
async function powerOffSimulator(self: SelfCommand, stateDir: string): Promise<void> {
  const args = [...self.args, "simulate", "--state", stateDir, "stop-all"];
  const result = await runCommand(self.program, args, {
    env: { ...self.env },
    deadlineMs: STOP_ALL_MS_MAX,
  });
  if (result.code === 0) return;
  const message = `Cannot end the machines of the simulated host: "zonewright simulate stop-all" ${
    describeResult(result)
  }`;
  throw new AgentError("host", message);
}

/** Counts the open consoles of a machine reader. */
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
