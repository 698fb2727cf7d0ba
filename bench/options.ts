// The options of bench/jobs.ts. A wrong one is an error.

import { PEERS } from "./peer_list.ts";

export const USAGE =
  "usage: bench/jobs.ts [--quick] [--peers all|none|NAME,...] [--slots N] [--json]";

export interface Options {
  readonly quick: boolean;
  /** Names as in `PEERS`. */
  readonly peers: readonly string[];
  /** Jobs that the agent runs at the same time; its own default when undefined. */
  readonly slots: number | undefined;
  readonly json: boolean;
}

const SLOTS_MAX = 1024;

/** @throws {Error} telling what is wrong */
export function parseOptions(args: readonly string[]): Options {
  let [quick, json] = [false, false];
  let peers: readonly string[] | undefined;
  let slots: number | undefined;
  const rest = [...args];
  for (let option = rest.shift(); option !== undefined; option = rest.shift()) {
    if (option === "--quick") quick = true;
    else if (option === "--json") json = true;
    else if (option === "--peers") peers = parsePeers(rest.shift());
    else if (option === "--slots") slots = parseSlots(rest.shift());
    else throw new Error(`unknown option ${option}`);
  }
  return { quick, json, slots, peers: peers ?? parsePeers(quick ? "plainjob" : "all") };
}

function parsePeers(value: string | undefined): string[] {
  const known = [...new Set(PEERS.map(({ option }) => option))];
  if (value === "all") return known;
  if (value === "none") return [];
  if (value === undefined || value === "") throw new Error("--peers wants all, none or names");
  const names = value.split(",");
  for (const name of names) {
    if (known.includes(name)) continue;
    throw new Error(`--peers does not know "${name}": expected all, none or ${known.join(", ")}`);
  }
  return names;
}

function parseSlots(value: string | undefined): number {
  const slots = /^\d+$/.test(value ?? "") ? Number(value) : NaN;
  if (slots >= 1 && slots <= SLOTS_MAX) return slots;
  throw new Error(`--slots wants a number from 1 to ${SLOTS_MAX}`);
}
