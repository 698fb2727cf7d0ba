// The language of the guest's own realm. No object of it should get into the realm of a task. If one
// does, only the language can be reached from it, and nothing of that can be changed: everything that
// properties, prototypes or calls lead to is frozen.

import type { GuestCheck } from "../wall/protocol.ts";
import { forgetMatches, freezeAll, madeByCalls } from "./realm/freeze.ts";

/** Names that stay on the global object. */
const LANGUAGE = new Set([
  ..."Object Function Array Number Boolean String Symbol Date Promise RegExp Error".split(" "),
  ..."AggregateError EvalError RangeError ReferenceError SyntaxError TypeError".split(" "),
  ..."URIError globalThis JSON Math ArrayBuffer Uint8Array Int8Array Uint16Array".split(" "),
  ..."Int16Array Uint32Array Int32Array BigUint64Array BigInt64Array Float32Array".split(" "),
  ..."Uint8ClampedArray Float64Array DataView Map BigInt Set Iterator WeakMap WeakSet".split(" "),
  ..."Proxy Reflect WeakRef isFinite isNaN parseFloat parseInt undefined NaN Infinity".split(" "),
]);
/** Further parts of the language: frozen, then removed with the rest of the platform. */
const TAKEN_AWAY = [
  ..."Intl Temporal Atomics SharedArrayBuffer FinalizationRegistry WebAssembly".split(" "),
  ..."DisposableStack AsyncDisposableStack SuppressedError Float16Array ShadowRealm".split(" "),
  ..."escape unescape encodeURI encodeURIComponent decodeURI decodeURIComponent eval".split(" "),
];

/**
 * Removes everything but the language from the global object, and freezes the language together with
 * the given objects.
 */
export function leaveLanguageOnly(others: readonly object[]): void {
  Object.defineProperty(Error, "prepareStackTrace", {
    value: undefined,
    writable: false,
    configurable: false,
  });
  forgetMatches();
  const names = [...LANGUAGE, ...TAKEN_AWAY].filter((name) => name !== "globalThis");
  const language = names.map((name) => Reflect.get(globalThis, name));
  // Making one to freeze what it inherits loads megabytes of tables: none can be made afterwards.
  Reflect.deleteProperty(Intl.Segmenter.prototype, "segment");
  freezeAll([...language, ...madeByCalls(), ...others]);
  // Symbol keys stay: events, such as that of a rejected promise, need them.
  for (const name of Object.getOwnPropertyNames(globalThis)) {
    if (!LANGUAGE.has(name)) removeName(name);
    else Object.defineProperty(globalThis, name, { writable: false, configurable: false });
  }
}

/** The parts of the language by name. */
export function languageValues(): Record<string, unknown> {
  const names = [...LANGUAGE].filter((name) => name !== "globalThis");
  return Object.fromEntries(names.map((name) => [name, Reflect.get(globalThis, name)]));
}

/** Some names reappear after the first deletion: V8 has its own below those of the platform. */
function removeName(name: string): void {
  Reflect.deleteProperty(globalThis, name);
  Reflect.deleteProperty(globalThis, name);
}

/** The check `primordials`: only the language is left, and none of it can be changed. */
export function languageCheck(): GuestCheck {
  const names = Object.getOwnPropertyNames(globalThis);
  const left = names.filter((name) => !LANGUAGE.has(name));
  const values = names.map((name) => Reflect.get(globalThis, name)).filter((value) =>
    value !== globalThis
  );
  const made = madeByCalls().flatMap(prototypesOf);
  const loose = [...values, ...values.flatMap(prototypesOf), ...made]
    .filter((value) => !Object.isFrozen(value))
    .map((value) => Object.prototype.toString.call(value));
  const detail = left.length > 0
    ? `has ${left.slice(0, 5).join(", ")} beside the language`
    : loose.length > 0
    ? `has objects of the language that can be changed: ${loose.slice(0, 5).join(", ")}`
    : "frozen";
  return { check: "primordials", ok: left.length + loose.length === 0, detail };
}

function prototypesOf(value: unknown): object[] {
  if (typeof value !== "function" && (typeof value !== "object" || value === null)) return [];
  const up = Object.getPrototypeOf(value);
  return up === null ? [] : [up, ...prototypesOf(up)];
}
