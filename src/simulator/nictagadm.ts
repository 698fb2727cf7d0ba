// nictagadm list: the networks of the host, by which nics name them. Each tag is on a link of its own,
// whose address follows from its place in the list.

import { type Outcome, printed } from "./outcome.ts";
import type { State } from "./state.ts";

const USAGE = "Usage:\n\tnictagadm list [-p]\n";

/** Runs one call: the words after `nictagadm`. */
export function nictagadm(state: State, args: readonly string[]): Outcome {
  const [subcommand, ...options] = args;
  if (subcommand !== "list" || options.some((option) => option !== "-p")) {
    return { code: 2, stdout: "", stderr: USAGE };
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
