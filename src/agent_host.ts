// The host that the agent manages, as the configuration names it.

import { join } from "@std/path";
import type { Ground } from "./agent_runner.ts";
import { AgentError, unreachable } from "./domain/error.ts";
import { powerOffSimulator } from "./host/simulated_host.ts";
import { localTransport, simulatedTransport, type Transport } from "./host/transport.ts";

/**
 * Warns of what the configuration names and the host lacks: the agent starts without it, since it
 * may come later, and jobs that need it fail with its name.
 */
export async function warnOfMissing({ config, log }: Ground): Promise<void> {
  if (config.host.value.kind === "local") {
    const vmadm = config.vmadm.value;
    if (!await isThere(vmadm)) log.warn("vmadm is missing: no machine can be made", { vmadm });
  }
  for (const folder of config.media_dirs.value) {
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

/** Opens the way to the host. @throws {AgentError} `invalid_argument` for one that cannot be had */
export function openTransport({ config, self, opened, log }: Ground, stateDir: string): Transport {
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
      throw new AgentError(
        "invalid_argument",
        `Cannot manage ${host.destination} over ssh: this version knows local and simulated hosts`,
      );
    default:
      return unreachable(host);
  }
}
