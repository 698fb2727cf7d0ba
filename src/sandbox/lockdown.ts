// The outer wall from the inside: a guest gives up every permission of its process for good, tries
// all the same what it must not be able to do, and leaves itself nothing but the language.

import { GUEST_PERMISSIONS, type GuestCheck, type GuestPermission } from "./protocol.ts";

/** Signals that would end or debug a guest; the agent alone ends guests, with SIGKILL. */
const IGNORED_SIGNALS = ["SIGUSR1", "SIGUSR2", "SIGINT", "SIGTERM", "SIGHUP"] as const;

/**
 * What remains of the global object: the language itself. Code that gets hold of an object of the
 * guest's own realm finds nothing else, and cannot change what it finds.
 */
const LANGUAGE = new Set([
  ..."Object Function Array Number Boolean String Symbol Date Promise RegExp Error".split(" "),
  ..."AggregateError EvalError RangeError ReferenceError SyntaxError TypeError".split(" "),
  ..."URIError globalThis JSON Math ArrayBuffer Uint8Array Int8Array Uint16Array".split(" "),
  ..."Int16Array Uint32Array Int32Array BigUint64Array BigInt64Array Float32Array".split(" "),
  ..."Uint8ClampedArray Float64Array DataView Map BigInt Set Iterator WeakMap WeakSet".split(" "),
  ..."Proxy Reflect WeakRef isFinite isNaN parseFloat parseInt undefined NaN Infinity".split(" "),
]);

/** Keeps SIGUSR1 from opening an inspector, and a stop of the whole group from killing guests. */
export function ignoreSignals(): void {
  for (const signal of IGNORED_SIGNALS) Deno.addSignalListener(signal, () => {});
}

/** What the lockdown needs to know of the realms in which tasks run. */
export interface LockdownOptions {
  /** Tries to import a module in a realm as tasks have it. */
  readonly importInTask: () => Promise<unknown>;
  /** Objects outside the language that must not be changed either. */
  readonly frozen: readonly object[];
}

/**
 * Closes the guest's process around it. Afterwards `Deno` is gone: whatever the caller still needs
 * of it must be in its hands already.
 * @returns one check for each permission: what was tried, and whether it was refused
 */
export async function lockDown(
  { importInTask, frozen }: LockdownOptions,
): Promise<GuestCheck[]> {
  for (const name of GUEST_PERMISSIONS) Deno.permissions.revokeSync({ name });
  // Not a literal, or Deno would look for the module before the program starts.
  const remote = ["https:", "", "127.0.0.1:1", "probe.js"].join("/");
  const imports = await succeeds(() => import(remote))
    ? "can import from the network"
    : await succeeds(importInTask)
    ? "can import in a task"
    : undefined;
  const checks = GUEST_PERMISSIONS.map((name) =>
    checkOf(name, name === "import" ? imports : openDoor(name))
  );
  leaveLanguageOnly(frozen);
  return checks;
}

function checkOf(name: GuestPermission, open: string | undefined): GuestCheck {
  const { state } = Deno.permissions.querySync({ name });
  if (open !== undefined) return { check: name, ok: false, detail: open };
  // The other states are refusals: a guest has nobody to ask.
  if (state !== "granted") return { check: name, ok: true, detail: "refused" };
  return { check: name, ok: false, detail: `has the permission "${name}"` };
}

/** Tries what a permission guards: anything but a refusal is a problem, told in words. */
function openDoor(name: Exclude<GuestPermission, "import">): string | undefined {
  const doors: Record<typeof name, readonly [what: string, attempt: () => unknown]> = {
    read: ["read a file", () => Deno.statSync("/")],
    write: ["write a file", () => Deno.mkdirSync("/zonewright-guest-probe")],
    net: ["use the network", () => Deno.listen({ hostname: "127.0.0.1", port: 0 })],
    env: ["read the environment", () => Deno.env.toObject()],
    run: ["run a program", () => new Deno.Command("/bin/true").outputSync()],
    sys: ["ask about the system", () => Deno.hostname()],
    ffi: ["load a library", () => Deno.dlopen("/zonewright-guest-probe", {})],
  };
  const [what, attempt] = doors[name];
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

function leaveLanguageOnly(frozen: readonly object[]): void {
  Object.defineProperty(Error, "prepareStackTrace", {
    value: undefined,
    writable: false,
    configurable: false,
  });
  // Keys that are symbols stay: events, such as the one of a rejected promise, need theirs.
  for (const name of Object.getOwnPropertyNames(globalThis)) {
    if (!LANGUAGE.has(name)) Reflect.deleteProperty(globalThis, name);
    else Object.defineProperty(globalThis, name, { writable: false, configurable: false });
  }
  const language = Object.getOwnPropertyNames(globalThis)
    .map((name) => Reflect.get(globalThis, name)).filter((value) => value !== globalThis);
  freezeAll([...language, ...frozen, async function () {}, function* () {}, async function* () {}]);
}

/** Freezes everything that can be reached by properties and prototypes, without running getters. */
function freezeAll(roots: readonly object[]): void {
  const seen = new Set<object>();
  const open: unknown[] = [...roots];
  while (open.length > 0) {
    const value = open.pop();
    if ((typeof value !== "object" && typeof value !== "function") || value === null) continue;
    if (seen.has(value)) continue;
    seen.add(value);
    open.push(Object.getPrototypeOf(value));
    for (const property of Object.values(Object.getOwnPropertyDescriptors(value))) {
      open.push(property.value, property.get, property.set);
    }
    // Typed arrays with elements cannot be frozen; none is among what is left.
    if (!ArrayBuffer.isView(value)) Object.freeze(value);
  }
}
