// The calls of zfs(8) that the agent makes: list, of names or of what is available, and destroy. Exit
// codes and texts are those of the documented tool; options are read as far as callers here use them.

import { failed, printed, type ToolOutcome } from "./outcome.ts";
import { zonepath } from "./machine.ts";
import { availableMiB, type Dataset, destroyDatasets, readDatasets } from "./pool.ts";
import type { State } from "./state.ts";

const MIB = 1024 ** 2;
const ZFS_USAGE = `usage:
\tlist [-Hp] [-o name|available] [-t filesystem,volume] [DATASET]
\tdestroy DATASET
`;

/** Runs one call: the words after `zfs`. */
export async function zfs(state: State, args: readonly string[]): Promise<ToolOutcome> {
  const [subcommand, ...words] = args;
  if (subcommand === "list") return await list(state, words);
  const [name] = words;
  if (subcommand === "destroy" && words.length === 1 && name !== undefined) {
    return await destroy(state, name);
  }
  return { code: 2, stdout: "", stderr: ZFS_USAGE };
}

/** Without a dataset the names of all; of one dataset, the pool's own included, what is asked for. */
async function list(state: State, words: readonly string[]): Promise<ToolOutcome> {
  const valueOf = (option: string) => {
    const at = words.indexOf(option);
    return at < 0 ? undefined : words[at + 1];
  };
  const column = valueOf("-o") ?? "name";
  const taken = [valueOf("-o"), valueOf("-t")];
  const [dataset] = words.filter((word) => !word.startsWith("-") && !taken.includes(word));
  const names = (await readDatasets(state)).map(({ name }) => name);
  if (dataset === undefined && column === "name") {
    return printed(names.map((name) => `${name}\n`).sort().join(""));
  }
  if (dataset === undefined || !["name", "available"].includes(column)) {
    return { code: 2, stdout: "", stderr: ZFS_USAGE };
  }
  if (dataset !== state.host.pool.name && !names.includes(dataset)) {
    return failed(`cannot open '${dataset}': dataset does not exist`);
  }
  return printed(`${column === "name" ? dataset : await availableMiB(state) * MIB}\n`);
}

async function destroy(state: State, name: string): Promise<ToolOutcome> {
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

// nictagadm list: the networks of the host, by which nics name them. Each tag is on a link of its own,
// whose address follows from its place in the list.

const NICTAGADM_USAGE = "Usage:\n\tnictagadm list [-p]\n";

/** Runs one call: the words after `nictagadm`. */
export function nictagadm(state: State, args: readonly string[]): ToolOutcome {
  const [subcommand, ...options] = args;
  if (subcommand !== "list" || options.some((option) => option !== "-p")) {
    return { code: 2, stdout: "", stderr: NICTAGADM_USAGE };
  }
  const rows = state.host.nic_tags.map((tag, index) => [tag, addressOf(index), `net${index}`]);
  if (options.includes("-p")) {
    // The separator is escaped where it is part of a value.
    const lines = rows.map((row) => row.map((value) => value?.replaceAll(":", "\\:")).join(":"));
    return printed(lines.map((line) => `${line}\n`).join(""));
  }
  const table = [["NAME", "MACADDRESS", "LINK"], ...rows];
  const lines = table.map(([name = "", address = "", link = ""]) =>
    `${name.padEnd(14)} ${address.padEnd(18)} ${link}`
  );
  return printed(lines.map((line) => `${line}\n`).join(""));
}

function addressOf(index: number): string {
  return `02:08:20:00:00:${(index % 256).toString(16).padStart(2, "0")}`;
}
