// The built-ins that the guest's code uses, taken before the first task. A task that gets hold of an
// object of the guest's realm could replace methods there; the guest never looks them up again.

/** Methods as functions: the first argument is the receiver. */
export interface Language {
  readonly parse: (text: string) => unknown;
  /** For strings, numbers and booleans only: on an object it would look for `toJSON`. */
  readonly quote: (value: string | number | boolean) => string;
  readonly textIndexOf: (text: string, part: string, from?: number) => number;
  readonly slice: (text: string, from: number, to?: number) => string;
  readonly codeAt: (text: string, at: number) => number;
  readonly bytesIndexOf: (bytes: Uint8Array, byte: number, from?: number) => number;
  readonly copy: (to: Uint8Array, from: Uint8Array, at: number) => void;
  readonly bytesOf: (buffer: ArrayBuffer, from: number, length: number) => Uint8Array<ArrayBuffer>;
  readonly partOf: (
    bytes: Uint8Array<ArrayBuffer>,
  ) => { readonly buffer: ArrayBuffer; readonly from: number; readonly length: number };
  readonly mapGet: <Key, Value>(map: ReadonlyMap<Key, Value>, key: Key) => Value | undefined;
  readonly mapSet: <Key, Value>(map: Map<Key, Value>, key: Key, value: Value) => void;
  readonly mapDelete: <Key>(map: Map<Key, unknown>, key: Key) => boolean;
  readonly mapEach: <Value>(map: ReadonlyMap<unknown, Value>, see: (value: Value) => void) => void;
  /** Of a map that must not be empty. */
  readonly firstKey: <Key>(map: ReadonlyMap<Key, unknown>) => Key;
  readonly mapSize: (map: ReadonlyMap<unknown, unknown>) => number;
  /** Whether the second argument is in the prototype chain of the first. */
  readonly isBelow: (value: object, prototype: object) => boolean;
  /** Names of own properties that can be enumerated. */
  readonly keysOf: (value: object) => readonly string[];
  /** Number of own properties of every kind. */
  readonly ownKeyCount: (value: object) => number;
  /** Defines a property that is not enumerable. */
  readonly define: (value: object, name: string, content: unknown) => void;
  /** Defines a property that cannot be changed and is not enumerable. */
  readonly fix: (value: object, name: string, content: unknown) => void;
  readonly freeze: (value: object) => void;
  readonly then: (promise: Promise<unknown>, next: () => void) => void;
}

/**
 * Copies the built-ins as they are now. With `late` they are looked up at every call, as careless code would:
 * tests use it to show that nothing could have replaced them.
 */
export function takeLanguage(late = false): Language {
  const take = late ? lookUp : detach;
  const { JSON: json, Uint8Array: Bytes } = globalThis;
  const isPrototypeOf = take<(one: object, other: object) => boolean>(
    Object.prototype,
    "isPrototypeOf",
  );
  const stringify = take<(json: JSON, value: unknown) => string>(JSON, "stringify");
  const parse = take<(json: JSON, text: string) => unknown>(JSON, "parse");
  const mapKeys = take<<Key>(map: ReadonlyMap<Key, unknown>) => MapIterator<Key>>(
    Map.prototype,
    "keys",
  );
  const next = take<<Key>(keys: MapIterator<Key>) => IteratorYieldResult<Key>>(
    Object.getPrototypeOf(new Map().keys()),
    "next",
  );
  const get = late ? lookUpGetter : detachGetter;
  const typed = Object.getPrototypeOf(Uint8Array.prototype);
  const bufferOf = get<(bytes: Uint8Array<ArrayBuffer>) => ArrayBuffer>(typed, "buffer");
  const offsetOf = get<(bytes: Uint8Array) => number>(typed, "byteOffset");
  const lengthOf = get<(bytes: Uint8Array) => number>(typed, "length");
  return {
    parse: (text) => parse(json, text),
    quote: (value) => stringify(json, value),
    textIndexOf: take(String.prototype, "indexOf"),
    slice: take(String.prototype, "slice"),
    codeAt: take(String.prototype, "charCodeAt"),
    bytesIndexOf: take(Uint8Array.prototype, "indexOf"),
    copy: take(Uint8Array.prototype, "set"),
    bytesOf: (buffer, from, length) => new Bytes(buffer, from, length),
    partOf: (bytes) => ({
      buffer: bufferOf(bytes),
      from: offsetOf(bytes),
      length: lengthOf(bytes),
    }),
    mapGet: take(Map.prototype, "get"),
    mapSet: take(Map.prototype, "set"),
    mapDelete: take(Map.prototype, "delete"),
    mapEach: take(Map.prototype, "forEach"),
    firstKey: (map) => next(mapKeys(map)).value,
    mapSize: get(Map.prototype, "size"),
    isBelow: (value, prototype) => isPrototypeOf(prototype, value),
    ...takeObjectCalls(take),
    then: take(Promise.prototype, "then"),
  };
}

function takeObjectCalls(
  take: typeof detach,
): Pick<Language, "keysOf" | "ownKeyCount" | "define" | "fix" | "freeze"> {
  const { Object: object, Reflect: reflect } = globalThis;
  const keys = take<(object: ObjectConstructor, value: object) => string[]>(Object, "keys");
  const ownKeys = take<(reflect: object, value: object) => PropertyKey[]>(Reflect, "ownKeys");
  const freeze = take<(object: ObjectConstructor, value: object) => void>(Object, "freeze");
  const defineProperty = take<
    (object: ObjectConstructor, value: object, name: string, content: object) => void
  >(Object, "defineProperty");
  const define = (value: object, name: string, content: unknown, loose: boolean) =>
    defineProperty(object, value, name, {
      __proto__: null,
      value: content,
      writable: loose,
      enumerable: false,
      configurable: loose,
    });
  return {
    keysOf: (value) => keys(object, value),
    ownKeyCount: (value) => ownKeys(reflect, value).length,
    define: (value, name, content) => define(value, name, content, true),
    fix: (value, name, content) => define(value, name, content, false),
    freeze: (value) => freeze(object, value),
  };
}

/**
 * Fixes what cannot be taken in advance: every `await`, also of the platform, reads the `constructor`
 * of a promise, and derived promises are made by it.
 */
export function fixPromises(): void {
  Object.freeze(Promise);
  Object.freeze(Promise.prototype);
}

function detach<Taken>(holder: object, name: PropertyKey): Taken {
  return uncurried(Reflect.get(holder, name));
}

function detachGetter<Taken>(prototype: object, name: PropertyKey): Taken {
  return uncurried(Object.getOwnPropertyDescriptor(prototype, name)?.get);
}

/** A method as a function. */
export function uncurried<Taken>(method: unknown): Taken {
  const { bind, call } = Function.prototype;
  return Reflect.apply(bind, call, [method]);
}

function lookUp<Taken>(_holder: object, name: PropertyKey): Taken {
  const method: unknown = (self: object, ...args: unknown[]) =>
    Reflect.apply(Reflect.get(Object(self), name), self, args);
  return method as Taken;
}

function lookUpGetter<Taken>(_prototype: object, name: PropertyKey): Taken {
  const getter: unknown = (self: object) => Reflect.get(self, name);
  return getter as Taken;
}
