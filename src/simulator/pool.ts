// The storage pool of the simulated host: datasets by name, and the space that their reservations leave. A
// volume reserves its whole size. The root of a bhyve zone reserves its quota; that of a kvm zone does not.
// Sizes are MiB. Files in a zone root are not counted here: host/transport.ts enforces the zone's quota as
// the agent writes them.

import { join } from "@std/path";
import { absent } from "../runtime/regular_file.ts";
import type { JsonObject } from "../domain/json.ts";
import { refusal } from "./outcome.ts";
import { locked, readJson, type State, writeJson } from "./host_folder.ts";

/** One dataset, without its children. */
export interface Dataset {
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
export async function availableMiB(state: State): Promise<number> {
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
