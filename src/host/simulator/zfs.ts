// The two calls of zfs(8) that remove what a call of vmadm has left behind: list and destroy. Exit
// codes and texts are those of the documented tool; options are read as far as callers here use them.

import { failed, type Outcome, printed } from "./outcome.ts";
import { zonepath } from "./machine.ts";
import { type Dataset, destroyDatasets, readDatasets } from "./pool.ts";
import type { State } from "./state.ts";

const USAGE = `usage:
\tlist [-H] [-o name] [-t filesystem,volume]
\tdestroy DATASET
`;

/** Runs one call: the words after `zfs`. */
export async function zfs(state: State, args: readonly string[]): Promise<Outcome> {
  const [subcommand, ...words] = args;
  if (subcommand === "list") {
    const names = (await readDatasets(state)).map(({ name }) => name);
    return printed(names.map((name) => `${name}\n`).sort().join(""));
  }
  const [name] = words;
  if (subcommand === "destroy" && words.length === 1 && name !== undefined) {
    return await destroy(state, name);
  }
  return { code: 2, stdout: "", stderr: USAGE };
}

async function destroy(state: State, name: string): Promise<Outcome> {
  const datasets = await readDatasets(state);
  const dataset = datasets.find((it) => it.name === name);
  if (dataset === undefined) return failed(`cannot open '${name}': dataset does not exist`);
  const children = datasets.filter((it) => it.name.startsWith(`${name}/`));
  if (children.length > 0) {
    const list = children.map((it) => it.name).join("\n");
    return failed(
      `cannot destroy '${name}': filesystem has children\n` +
        `use '-r' to destroy the following datasets:\n${list}`,
    );
  }
  await destroyDatasets(state, [name]);
  await removeZoneFolder(state, dataset);
  return printed("");
}

/** A filesystem is mounted where the zone's folder is. */
async function removeZoneFolder(state: State, { kind, name }: Dataset): Promise<void> {
  if (kind !== "filesystem") return;
  const uuid = name.slice(state.host.pool.name.length + 1);
  await Deno.remove(zonepath(state, uuid), { recursive: true }).catch((error) => {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  });
}
