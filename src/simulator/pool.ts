// The storage pool of the simulated host: datasets by name, and the space that their reservations leave. A volume
// reserves its whole size. The root of a bhyve zone reserves its quota; that of a kvm zone does not. Sizes are MiB.
// Files in a zone root are not counted here: host/transport.ts enforces the zone's quota as the agent writes them.
// zfs(8) lists and destroys the datasets.

import { join } from "@std/path";
import { absent } from "../runtime/regular_file.ts";
import type { JsonObject } from "../domain/json.ts";
import { failed, printed, refusal, type ToolOutcome } from "./outcome.ts";
import { locked, readJson, type State, writeJson } from "./host_folder.ts";
import { zonepath } from "./machine.ts";

/** One dataset, without its children. */
interface Dataset {
  readonly name: string;
  readonly kind: "filesystem" | "volume";
  /** Reserved space, MiB. */
  readonly reservation: number;
}

function datasetsFile(state: State): string {
  return join(state.dir, "datasets.json");
}

/** All datasets, in order of creation. */
export async function readDatasets(state: State): Promise<Dataset[]> {
  const { datasets } = await readJson(datasetsFile(state)) ?? {};
  // Written by this program only.
  return (datasets ?? []) as object as Dataset[];
}

/**
 * Creates a dataset.
 * @throws {AgentError} `host` with the words of zfs when it exists or does not fit
 */
export async function createDataset(
  state: State,
  dataset: Dataset,
  outOfSpace = false,
): Promise<void> {
  await locked(state.dir, async () => {
    const datasets = await readDatasets(state);
    // zfs ends its own text with a newline, so these messages end in an empty line.
    const cannot = `Command failed: cannot create '${dataset.name}'`;
    if (datasets.some((other) => other.name === dataset.name)) {
      throw refusal(`${cannot}: dataset already exists\n`);
    }
    const reserved = datasets.reduce((sum, other) => sum + other.reservation, 0);
    if (outOfSpace || reserved + dataset.reservation > state.host.pool.size) {
      throw refusal(`${cannot}: out of space\n`);
    }
    await writeJson(datasetsFile(state), { datasets: [...datasets, dataset] });
  });
}

/** Unreserved space of the pool, MiB. */
async function availableMiB(state: State): Promise<number> {
  const reserved = (await readDatasets(state)).reduce((sum, it) => sum + it.reservation, 0);
  return Math.max(0, state.host.pool.size - reserved);
}

/** Destroys datasets by name; missing ones are ignored. */
export async function destroyDatasets(state: State, names: readonly string[]): Promise<void> {
  await locked(state.dir, async () => {
    const datasets = (await readDatasets(state)).filter(({ name }) => !names.includes(name));
    await writeJson(datasetsFile(state), { datasets });
  });
  for (const name of names) {
    await Deno.remove(volumeFile(state, name)).catch(absent);
  }
}

/** The file with the bytes of a volume, once an emulator has used it. */
export function volumeFile(state: State, name: string): string {
  return join(state.dir, "volumes", name.replaceAll("/", "_"));
}

/** Name of the dataset that is the root of a zone. */
export function zoneDataset(state: State, uuid: string): string {
  return `${state.host.pool.name}/${uuid}`;
}

/** Datasets that belong to a machine: its zone root, and volumes beside it (kvm) or below (bhyve). */
export async function datasetsOf(state: State, uuid: string): Promise<string[]> {
  const root = zoneDataset(state, uuid);
  return (await readDatasets(state)).map(({ name }) => name).filter((name) =>
    name === root || name.startsWith(`${root}-`) || name.startsWith(`${root}/`)
  );
}

/** Name of the volume of one disk. */
export function volumeName(state: State, brand: string, uuid: string, index: number): string {
  const root = zoneDataset(state, uuid);
  return brand === "bhyve" ? `${root}/disk${index}` : `${root}-disk${index}`;
}

/** The volume of a disk; null if the disk is a file. */
export function volumeOf(disk: JsonObject): string | null {
  return typeof disk.zfs_filesystem === "string" ? disk.zfs_filesystem : null;
}

/**
 * Changes what a dataset reserves.
 * @throws {AgentError} `host` with the words of zfs when the pool lacks the space
 */
export async function reserve(state: State, name: string, reservation: number): Promise<void> {
  await locked(state.dir, async () => {
    const datasets = await readDatasets(state);
    const others = datasets.filter((dataset) => dataset.name !== name);
    const reserved = others.reduce((sum, other) => sum + other.reservation, 0);
    if (reserved + reservation > state.host.pool.size) {
      throw refusal(
        `Command failed: cannot set property for '${name}': size is greater than available space\n`,
      );
    }
    const changed = datasets.map((it) => it.name === name ? { ...it, reservation } : it);
    await writeJson(datasetsFile(state), { datasets: changed });
  });
}

const MIB = 1024 ** 2;
const ZFS_USAGE = `usage:
\tlist [-Hp] [-o name|used,available] [-t filesystem,volume] [DATASET]
\tdestroy DATASET
`;

/**
 * Runs one call, the words after `zfs`. Exit codes and texts are those of the documented tool; only
 * options that callers use are read.
 */
export async function zfs(state: State, args: readonly string[]): Promise<ToolOutcome> {
  const [subcommand, ...words] = args;
  if (subcommand === "list") return await list(state, words);
  const [name] = words;
  if (subcommand === "destroy" && words.length === 1 && name !== undefined) {
    return await destroy(state, name);
  }
  return { code: 2, stdout: "", stderr: ZFS_USAGE };
}

/** Without a dataset, the names of all; for one dataset, which may be the pool, the requested property. */
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
  if (dataset === undefined || !["name", "used,available"].includes(column)) {
    return { code: 2, stdout: "", stderr: ZFS_USAGE };
  }
  if (dataset !== state.host.pool.name && !names.includes(dataset)) {
    return failed(`cannot open '${dataset}': dataset does not exist`);
  }
  if (column === "name") return printed(`${dataset}\n`);
  const free = await availableMiB(state);
  return printed(`${(state.host.pool.size - free) * MIB}\t${free * MIB}\n`);
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

/** The folder of the zone is the mount point of a filesystem. */
async function removeZoneFolder(state: State, { kind, name }: Dataset): Promise<void> {
  if (kind !== "filesystem") return;
  const uuid = name.slice(state.host.pool.name.length + 1);
  await Deno.remove(zonepath(state, uuid), { recursive: true }).catch(absent);
}
