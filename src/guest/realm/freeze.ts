// Freezes a language: everything that properties, prototypes and calls lead to. The guest does it with
// its own realm (../primordials.ts), and with the realm that tasks share. For the latter, the text of
// these functions runs in that realm; the head of body.ts says how. They may use only each other,
// their arguments and the language.

/**
 * Freezes everything that can be reached through prototypes and properties, symbols included, without
 * running getters. `open` is searched but not frozen.
 */
export function freezeAll(roots: readonly unknown[], open?: object): void {
  for (const value of reachable(roots)) {
    // Typed arrays with elements cannot be frozen; none is left.
    if (!ArrayBuffer.isView(value) && value !== open) Object.freeze(value);
  }
}

/** All objects and functions that properties and prototypes of the roots lead to, roots included. */
export function reachable(roots: readonly unknown[]): Set<object> {
  const seen = new Set<object>();
  const next: unknown[] = [...roots];
  while (next.length > 0) {
    const value = next.pop();
    if ((typeof value !== "object" && typeof value !== "function") || value === null) continue;
    if (seen.has(value)) continue;
    seen.add(value);
    next.push(Object.getPrototypeOf(value));
    for (const key of Reflect.ownKeys(value)) {
      const property = Object.getOwnPropertyDescriptor(value, key);
      next.push(property?.value, property?.get, property?.set);
    }
  }
  return seen;
}

/** Samples of objects that no property leads to: hidden prototypes and results of calls. */
export function madeByCalls(): unknown[] {
  const all: unknown[] = [
    async function () {},
    function* () {},
    async function* () {},
    (function* () {}).prototype,
    (async function* () {}).prototype,
    [].values(),
    new Map().values(),
    new Set().values(),
    ""[Symbol.iterator](),
    "a".matchAll(/a/g),
    [].values().map(String),
    // The wrapper of a foreign iterator.
    Iterator.from({ next: () => ({ done: true, value: undefined }) }),
    Proxy.revocable({}, {}).revoke,
    Promise.withResolvers(),
    new Error("a"),
  ];
  // The function that throws for `callee` of strict functions is reachable as its getter.
  const strict = function () {
    return arguments;
  };
  const traced = {};
  Error.captureStackTrace(traced);
  return [...all, strict(), traced];
}

/** Deletes what RegExp remembers of the last match: `RegExp.$1`, `RegExp.input` and the others. */
export function forgetMatches(): void {
  const kept = ["length", "name", "prototype", "escape"];
  for (const key of Reflect.ownKeys(RegExp)) {
    if (typeof key === "string" && !kept.includes(key)) Reflect.deleteProperty(RegExp, key);
  }
}

/**
 * Makes the realm one that tasks can share: nothing that they can reach keeps anything of them. Exceptions are
 * `Error.stackTraceLimit`, which V8 reads as plain data and the start of each task sets, and the global object, which
 * is checked after each task.
 * @param random returns numbers of at least 0 and below 1 that no earlier one foretells
 */
export function freezeRealm(random: () => number): void {
  forgetMatches();
  replaceRandom(random);
  const roots = Reflect.ownKeys(globalThis)
    .filter((key) => key !== "globalThis")
    .map((key): unknown => Reflect.get(globalThis, key));
  const all = [...roots, ...madeByCalls(), Object.getPrototypeOf(globalThis)];
  freezeSegmentsLater();
  // Before the values move behind getters, where no property leads to them.
  const whole = [...reachable(all)];
  allowOverrides(whole);
  for (const key of Reflect.ownKeys(Error)) {
    const fixed = {
      configurable: false,
      ...(key === "stackTraceLimit" ? {} : { writable: false }),
    };
    Object.defineProperty(Error, key, fixed);
  }
  Object.preventExtensions(Error);
  freezeAll(whole, Error);
}

/** V8 draws random numbers from a state that one task could read and the next one would continue. */
export function replaceRandom(random: () => number): void {
  const drawn = {
    random() {
      let value = 0;
      let known = false;
      try {
        value = random();
        known = true;
      } catch {
        // A foreign exception, such as a stack overflow in the guest's function: never inspected.
      }
      if (!known) throw new RangeError("Maximum call stack size exceeded");
      return value;
    },
  };
  Math.random = drawn.random;
}

/**
 * Freezes what `segment()` returns when it is first called: making one at the start of every guest
 * would load megabytes of tables.
 */
export function freezeSegmentsLater(): void {
  const { prototype } = Intl.Segmenter;
  const { segment } = prototype;
  const { apply, getPrototypeOf } = Reflect;
  let frozen = false;
  const later = {
    segment(this: Intl.Segmenter, text: string) {
      const segments = apply(segment, this, [text]);
      if (!frozen) {
        freezeAll([getPrototypeOf(segments), getPrototypeOf(segments[Symbol.iterator]())]);
        frozen = true;
      }
      return segments;
    },
  };
  prototype.segment = later.segment;
}

/**
 * Lets objects have properties of their own that are called like those of a frozen object above them:
 * without it, `error.name = "Mine"` would be refused, or ignored where code is not strict.
 */
export function allowOverrides(all: readonly object[]): void {
  for (const value of all) {
    // V8 reads what Error holds as plain data.
    if (value === Error) continue;
    for (const key of Reflect.ownKeys(value)) allowOverride(value, key);
  }
}

/** Replaces a property that could be written by a getter, and a setter for the objects below. */
export function allowOverride(above: object, key: PropertyKey): void {
  const property = Object.getOwnPropertyDescriptor(above, key);
  if (property?.writable !== true || property.configurable !== true) return;
  const { value } = property;
  const { defineProperty, getOwnPropertyDescriptor } = Object;
  const pair = {
    get() {
      return value;
    },
    set(this: object, own: unknown) {
      // Code such as `Array.prototype.at = Array.prototype.at ?? …` changes nothing.
      if (this === above && own === value) return;
      if (this === above) {
        throw new TypeError(`Cannot assign to "${String(key)}" of the language: it is frozen`);
      }
      const present = getOwnPropertyDescriptor(this, key);
      // An object may have got this very pair, as a copy.
      if (present !== undefined && present.set !== pair.set) Reflect.set(this, key, own);
      else {
        const plain = { value: own, writable: true, enumerable: true, configurable: true };
        defineProperty(this, key, plain);
      }
    },
  };
  const { get, set } = pair;
  defineProperty(above, key, { get, set, enumerable: property.enumerable === true });
}
