// Tests of the file for Node, on the oldest and the newest Node that it is made for. Both lie in .toolchain/
// where `make test-full` has put them; without one, its tests are skipped by name.

import { fromFileUrl } from "@std/path";
import { NODES, OLD_NODES } from "../../vendors/pins.ts";

export interface NodeRuntime {
  /** Its version, like 24.18.0. */
  readonly version: string;
  readonly program: string;
}

/** What a test needs of the host; without it, the test is skipped by name. */
interface HostNeed {
  readonly needs: string;
  readonly ignore: boolean;
}

/** Registers a test for each Node. */
export function eachNode(
  name: string,
  run: (node: NodeRuntime) => Promise<void>,
  need?: HostNeed,
): void {
  for (const { version } of NODES) register(name, version, run, need);
}

/** Registers a test for each Node that is too old. */
export function eachOldNode(name: string, run: (node: NodeRuntime) => Promise<void>): void {
  for (const { version } of OLD_NODES) register(name, version, run);
}

/** The path of a pinned Node, or undefined where it was not put in place. */
export function nodePath(version: string): string | undefined {
  const path = pathOf(version);
  return isThere(path) ? path : undefined;
}

function pathOf(version: string): string {
  return fromFileUrl(new URL(`../../.toolchain/node/${version}/node`, import.meta.url));
}

function register(
  name: string,
  version: string,
  run: (node: NodeRuntime) => Promise<void>,
  need?: HostNeed,
): void {
  const program = pathOf(version);
  Deno.test({
    name: `${name} (on Node ${version})${need === undefined ? "" : ` [needs ${need.needs}]`}`,
    ignore: Deno.env.get("ZONEWRIGHT_TEST_REQUIRE") !== "all" &&
      (!isThere(program) || need?.ignore === true),
    fn: () => run({ version, program }),
  });
}

function isThere(program: string): boolean {
  try {
    return Deno.statSync(program).isFile;
  } catch {
    return false;
  }
}
