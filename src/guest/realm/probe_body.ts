// The task by which a guest checks its realms; see probe.ts. As in body.ts, only the text of these
// functions runs, in a realm. They may use only each other, their arguments and the language.

type AnyCall = (...args: unknown[]) => unknown;

/** Inspects what the attempts produce. */
export interface Look {
  /** Names of attempts that reached an object of another realm. */
  readonly found: Set<string>;
  /** Follows all properties and prototypes of a value. */
  at(what: string, value: unknown): void;
  /** Inspects what a call returns or throws, and what its promise resolves or rejects with. */
  attempt(what: string, call: () => unknown): void;
}

/** The body of the task, with what a task is given by name, and the global object. */
export async function probeBody(
  globals: Readonly<Record<string, unknown>>,
  whole: object,
  cb: (error: null, result: string[]) => void,
): Promise<void> {
  const look = openLook();
  const given = givenCalls(globals);
  const language = languageCalls(whole);
  for (const [what, call] of language) look.attempt(what, call);
  look.attempt("rejected promises", () => Promise.any([]));
  // No stacks from here on: writing one costs as much as the rest of an attempt.
  Error.stackTraceLimit = 0;
  for (const [name, call] of given) attemptOddly(look, name, call);
  // One call for each way to the guest: every overflow costs V8 much time.
  const ways = given.filter(([name]) => /^(setTimeout|vmadm\.get|log\.info)$/.test(name));
  dive(look, [...language.slice(0, 2), ...ways]);
  look.at("the global object", whole);
  look.at("the arguments of a task", [globals, cb, probeBody]);
  for (let turn = 0; turn < 20; turn++) await null;
  cb(null, [...look.found].slice(0, 10));
}

/**
 * Starts with nothing found. An object counts as foreign when its prototypes end outside this
 * realm.
 */
export function openLook(): Look {
  // Kept in constants: each lookup of a global in a realm goes through its guest.
  const { getPrototypeOf, ownKeys, getOwnPropertyDescriptor } = Reflect;
  const { hasOwn, prototype } = Object;
  const OwnPromise = Promise;
  const found = new Set<string>();
  const seen = new Set<object>();
  /** Whether the prototype chain ends in the `Object.prototype` of another realm. */
  const isForeign = (value: object) => {
    let top = value;
    for (let up: object | null = value; up !== null; up = getPrototypeOf(up)) top = up;
    return top !== prototype && hasOwn(top, "constructor");
  };
  const at = (what: string, root: unknown) => {
    const open = [root];
    while (open.length > 0) {
      const value = open.pop();
      if ((typeof value !== "object" && typeof value !== "function") || value === null) continue;
      if (seen.has(value)) continue;
      seen.add(value);
      if (isForeign(value)) found.add(what);
      open.push(getPrototypeOf(value));
      for (const key of ownKeys(value)) {
        const property = getOwnPropertyDescriptor(value, key);
        open.push(property?.value, property?.get, property?.set);
      }
    }
  };
  const attempt = (what: string, call: () => unknown) => {
    let result: unknown;
    try {
      result = call();
    } catch (error) {
      at(`an error of ${what}`, error);
    }
    at(`the answer of ${what}`, result);
    if (!(result instanceof OwnPromise)) return;
    result.then(
      (value) => at(`what is kept of ${what}`, value),
      (error) => at(`a rejection of ${what}`, error),
    );
  };
  return { found, at, attempt };
}

/** The functions among these globals, and those one level below. */
export function givenCalls(globals: Readonly<Record<string, unknown>>): [string, AnyCall][] {
  const given: [string, AnyCall][] = [];
  for (const [name, value] of Object.entries(globals)) {
    if (typeof value === "function") given.push([name, value as AnyCall]);
    else {
      const calls = Object.entries(value as Record<string, AnyCall>);
      for (const [verb, call] of calls) given.push([`${name}.${verb}`, call]);
    }
  }
  return given;
}

/** Calls a function with arguments that no task would pass. */
export function attemptOddly(look: Look, name: string, call: AnyCall): void {
  const throwing = new Proxy({}, {
    get: () => {
      throw new RangeError("a trap");
    },
  });
  const odd: unknown[] = [undefined, null, NaN, -1, 2n, Symbol.iterator, throwing, {}];
  look.attempt(name, () => call());
  look.attempt(name, () => call(...odd));
  for (const one of odd) look.attempt(name, () => call(one, one));
  look.attempt(name, () => Reflect.construct(call, []));
}

/** Calls each function with too little stack left, and with just enough. */
export function dive(look: Look, calls: [string, () => unknown][]): void {
  let tries = 0;
  const down = () => {
    try {
      down();
    } catch (error) {
      look.at("an overflow of the stack", error);
    }
    if (tries++ > 1) return;
    for (const [what, call] of calls) look.attempt(`${what} without stack`, call);
  };
  down();
}

/** Calls that the language refuses, each in a different way, and objects that only a call creates. */
export function languageCalls(whole: object): [string, () => unknown][] {
  const none: unknown = null;
  const bracket = "[";
  return [
    ["the language", () => (none as { x: unknown }).x],
    ["JSON", () => JSON.parse("{")],
    ["lengths", () => new Array(-1)],
    ["numbers", () => (1).toFixed(1000)],
    ["texts", () => "x".repeat(-1)],
    ["URIs", () => decodeURIComponent("%")],
    ["regular expressions", () => new RegExp(bracket)],
    ["dates", () => new Date(NaN).toISOString()],
    ["BigInt", () => BigInt(1.5)],
    ["symbols", () => String.prototype.concat.call("", Symbol.iterator as never)],
    ["code from strings", () => Function("return 1")],
    ["a rejected promise", () => Promise.reject(new Error("x"))],
    ["lists from async", () => Array.fromAsync(none as unknown[])],
    [
      "the global object",
      () => Object.defineProperty(whole, "undefined", { value: Error, enumerable: true }),
    ],
    ["iterators", () => [[].values(), new Map().keys(), ""[Symbol.iterator](), "a".matchAll(/a/g)]],
    [
      "generators",
      () => [function* () {}, async function* () {}, (async function* () {})().next()],
    ],
  ];
}
