// Network namespaces of tests: one of a database server, and one of each host, with a cable between. What one side
// sends can be lost on the way: neither side is told, and no connection ends.

import { requireProgram } from "./program.ts";
import { until } from "./until.ts";

/** The address of the server, the same for all hosts. */
export const SERVER_ADDRESS = "10.77.0.1";
/** The networks of the hosts' cables. */
export const HOST_ADDRESSES = "10.77.0.0/16";
/** The address of a card that nobody has. */
const NO_CARD = "02:00:00:00:00:ff";
/** Who runs the server. */
const NOBODY = 65_534;

/** What is lost: what the host sends, what the server sends to it, or both since the cable is out. */
export type Cut = "sent" | "received" | "both";

/** A host's namespace. */
export interface HostNamespace {
  /** What runs a program there, in the same process. */
  readonly around: readonly string[];
  cut(what: Cut): Promise<void>;
  mend(): Promise<void>;
}

export interface Namespaces {
  /** What runs a program there, in the same process, as a user who is not root. */
  readonly server: readonly string[];
  readonly hosts: readonly HostNamespace[];
}

/** Registers a test that needs namespaces; where the system allows none it is skipped by name. */
export function namespaceTest(name: string, ignore: boolean, fn: () => Promise<void>): void {
  requireProgram("ip");
  Deno.test({ name: `${name} [needs namespaces]`, ignore: ignore || !areAllowed(), fn });
}

function areAllowed(): boolean {
  const cable = ["ip", "link", "add", "zw0", "type", "veth", "peer", "name", "zw1"];
  try {
    const command = new Deno.Command("unshare", { args: ["--net", ...cable], stderr: "null" });
    return command.outputSync().success;
  } catch {
    return false; // no unshare
  }
}

/** Runs with a server's namespace and so many of hosts, which end with it. */
export async function withNamespaces(
  hosts: number,
  run: (namespaces: Namespaces) => Promise<void>,
): Promise<void> {
  // Each ends with its input, also when this process does.
  const held: Deno.ChildProcess[] = [];
  const open = async (): Promise<number> => {
    const holder = new Deno.Command("unshare", {
      args: ["--net", "cat"],
      stdin: "piped",
      stdout: "null",
    }).spawn();
    held.push(holder);
    const own = await Deno.readLink("/proc/self/ns/net");
    await until(
      "the namespace",
      async () => await Deno.readLink(`/proc/${holder.pid}/ns/net`) !== own,
    );
    await within(holder.pid, "link", "set", "lo", "up");
    return holder.pid;
  };
  try {
    const server = await open();
    await within(server, "address", "add", `${SERVER_ADDRESS}/32`, "dev", "lo");
    const connected: HostNamespace[] = [];
    for (let at = 1; at <= hosts; at++) connected.push(await connect(server, await open(), at));
    const asNobody = [`--setuid=${NOBODY}`, `--setgid=${NOBODY}`];
    await run({ server: [...around(server), ...asNobody], hosts: connected });
  } finally {
    for (const holder of held) {
      await holder.stdin.close();
      await holder.status;
    }
  }
}

/** Lays the cable between a server's namespace and a host's. */
async function connect(server: number, host: number, number: number): Promise<HostNamespace> {
  const [near, far] = [`10.77.${number}.2`, `10.77.${number}.1`];
  const card = `host${number}`;
  await within(
    host,
    "link",
    "add",
    card,
    "type",
    "veth",
    "peer",
    "name",
    card,
    "netns",
    `${server}`,
  );
  await within(host, "address", "add", `${near}/24`, "dev", card);
  await within(server, "address", "add", `${far}/24`, "dev", card);
  await within(host, "link", "set", card, "up");
  await within(server, "link", "set", card, "up");
  await within(host, "route", "add", SERVER_ADDRESS, "via", far);
  const lose = (from: number, to: string) =>
    within(from, "neighbour", "replace", to, "lladdr", NO_CARD, "dev", card, "nud", "permanent");
  const find = (from: number, to: string) =>
    within(from, "neighbour", "replace", to, "dev", card, "nud", "none");
  return {
    around: around(host),
    async cut(what) {
      if (what === "both") return await within(host, "link", "set", card, "down");
      await (what === "sent" ? lose(host, far) : lose(server, near));
    },
    async mend() {
      await within(host, "link", "set", card, "up");
      // Down, the card lost its routes.
      await within(host, "route", "replace", SERVER_ADDRESS, "via", far);
      await find(host, far);
      await find(server, near);
    },
  };
}

const around = (pid: number) => ["nsenter", `--net=/proc/${pid}/ns/net`];

/** Runs `ip` in a namespace. */
async function within(pid: number, ...args: readonly string[]): Promise<void> {
  const [program = "", ...more] = [...around(pid), "ip", ...args];
  const { success, stderr } = await new Deno.Command(program, { args: more }).output();
  if (!success) throw new Error(`ip ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
}
