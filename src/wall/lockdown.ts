// The outer wall from the inside: a guest gives up every permission of its process for good, then
// tries what must now be refused.

import { nodeRuntime } from "../runtime/node.ts";
import { GUEST_PERMISSIONS, type GuestCheck, type GuestPermission } from "./protocol.ts";

/** Signals that would end or debug a guest. Only the agent ends guests, with SIGKILL. */
const IGNORED_SIGNALS = ["SIGUSR1", "SIGUSR2", "SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Keeps SIGUSR1 from opening an inspector, and a signal to the process group from killing guests. */
export function ignoreSignals(): void {
  for (const signal of IGNORED_SIGNALS) Deno.addSignalListener(signal, () => {});
}

/**
 * Gives up every permission, unless `keep` leaves them.
 * @returns one check for each permission: what was tried, and whether it was refused
 */
export async function revokePermissions(keep = false): Promise<GuestCheck[]> {
  const other = nodeRuntime();
  if (other !== undefined) return [...await other.revoke(keep)];
  for (const name of GUEST_PERMISSIONS) if (!keep) Deno.permissions.revokeSync({ name });
  // Not a literal: Deno would resolve the module before the program starts.
  const remote = ["https:", "", "127.0.0.1:1", "probe.js"].join("/");
  const imports = await succeeds(() => import(remote)) ? "can import from the network" : undefined;
  return GUEST_PERMISSIONS.map((name) =>
    checkOf(name, name === "import" || keep ? imports : openPermission(name))
  );
}

function checkOf(name: GuestPermission, open: string | undefined): GuestCheck {
  const { state } = Deno.permissions.querySync({ name });
  if (open !== undefined) return { check: name, ok: false, detail: open };
  // Any other state is a refusal: a guest has no one to prompt.
  if (state !== "granted") return { check: name, ok: true, detail: "refused" };
  return { check: name, ok: false, detail: `has the permission "${name}"` };
}

/** Tries what a permission guards: anything but a refusal is a problem, named in words. */
function openPermission(name: Exclude<GuestPermission, "import">): string | undefined {
  const attempts: Record<typeof name, readonly [what: string, attempt: () => unknown]> = {
    read: ["read a file", () => Deno.statSync("/")],
    write: ["write a file", () => Deno.mkdirSync("/zonewright-guest-probe")],
    net: ["use the network", () => Deno.listen({ hostname: "127.0.0.1", port: 0 })],
    env: ["read the environment", () => Deno.env.toObject()],
    run: ["run a program", () => new Deno.Command("/bin/true").outputSync()],
    sys: ["ask about the system", () => Deno.hostname()],
    ffi: ["load a library", () => Deno.dlopen("/zonewright-guest-probe", {})],
  };
  const [what, attempt] = attempts[name];
  try {
    attempt();
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) return undefined;
  }
  return `can ${what}`;
}

async function succeeds(attempt: () => Promise<unknown>): Promise<boolean> {
  try {
    await attempt();
    return true;
  } catch {
    return false;
  }
}
