// What a simulated host has left over: things that exist though nothing owns them, and machines that
// are neither stopped nor running. A test that ends with an empty list has cleaned up.

import { join } from "@std/path";
import type { JsonObject } from "../domain/json.ts";
import { isAlive, readMachine, readMachines } from "./machine.ts";
import { readDatasets, volumeFile } from "./pool.ts";
import { namesIn, sleep, type State } from "./state.ts";

const UUID_LENGTH = 36;
/** What a process is given to end after its machine has, ms. */
const ENDING_MS = 500;

/** Lists the leftovers of a host; empty when there are none. */
export async function leftovers(state: State): Promise<JsonObject[]> {
  const machines = await readMachines(state);
  const uuids = new Set(machines.map(({ uuid }) => uuid));
  const found: JsonObject[] = [];
  for (const { uuid, state: is } of machines) {
    if (is !== "stopped" && is !== "running") found.push({ kind: "zone", uuid, state: is });
  }
  const datasets = await readDatasets(state);
  for (const { name } of datasets) {
    const uuid = name.slice(state.host.pool.name.length + 1).slice(0, UUID_LENGTH);
    if (!uuids.has(uuid)) found.push({ kind: "dataset", uuid, name });
  }
  for (const uuid of await namesIn(join(state.dir, "zones"))) {
    if (uuids.has(uuid)) {
      // Nobody but whoever copies a file into the root puts anything beside it.
      const beside = (await namesIn(join(state.dir, "zones", uuid))).filter((it) => it !== "root");
      found.push(...beside.map((name) => ({ kind: "zone_file", uuid, name })));
      continue;
    }
    const files = await namesIn(join(state.dir, "zones", uuid, "root"));
    found.push({ kind: "zone_root", uuid, files });
  }
  const files = datasets.map(({ name }) => volumeFile(state, name));
  for (const name of await namesIn(join(state.dir, "volumes"))) {
    if (!files.includes(join(state.dir, "volumes", name))) {
      found.push({ kind: "volume_file", name });
    }
  }
  for (const name of await namesIn(join(state.dir, "processes"))) {
    if (!name.endsWith(".json")) continue;
    const uuid = name.slice(0, -".json".length);
    if (!await isAlive(state, uuid)) continue;
    if ((await readMachine(state, uuid))?.state === "running") continue;
    // A process that is ending marks its machine before it is gone.
    await sleep(ENDING_MS);
    if (!await isAlive(state, uuid)) continue;
    // Looked at again: a machine may have been started since the list was made.
    const machine = await readMachine(state, uuid);
    if (machine === null || machine.state === "stopped") found.push({ kind: "process", uuid });
  }
  return found;
}
