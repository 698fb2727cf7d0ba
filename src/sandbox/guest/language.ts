// What the code of a guest needs of the language, taken before the first task. A body that has got
// hold of an object of the guest's own realm may replace any method there; none that is called for
// the next task is then looked up again.

/** Methods by themselves: their first argument is what they are called on. */
export interface Language {
  readonly parse: (text: string) => unknown;
  /** Of texts, numbers and truth values alone: an object would be asked for `toJSON`. */
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
  /** Of a map that is not empty. */
  readonly firstKey: <Key>(map: ReadonlyMap<Key, unknown>) => Key;
  readonly mapSize: (map: ReadonlyMap<unknown, unknown>) => number;
  /** Whether the second is among the prototypes of the first. */
  readonly isBelow: (value: object, prototype: object) => boolean;
  /** Names of an object's own properties. */
  readonly keysOf: (value: object) => readonly string[];
  /** Gives an object a property that is not listed. */
  readonly define: (value: object, name: string, content: unknown) => void;
  readonly then: (promise: Promise<unknown>, next: () => void) => void;
}

/**
 * Takes them as they are now. `late` looks them up again at every call, as code does that is not
 * careful: what is tested then is that nothing could have replaced them.
 */
export function takeLanguage(late = false): Language {
  const take = late ? lookUp : detach;
  const isPrototypeOf = take<(one: object, other: object) => boolean>(
    Object.prototype,
    "isPrototypeOf",
  );
  const stringify = take<(json: JSON, value: unknown) => string>(JSON, "stringify");
  const parse = take<(json: JSON, text: string) => unknown>(JSON, "parse");
  const json = JSON;
  const object = Object;
  const keys = take<(object: ObjectConstructor, value: object) => string[]>(Object, "keys");
  const defineProperty = take<
    (object: ObjectConstructor, value: object, name: string, content: object) => void
  >(Object, "defineProperty");
  const Bytes = Uint8Array;
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
    keysOf: (value) => keys(object, value),
    define: (value, name, content) =>
      defineProperty(object, value, name, {
        __proto__: null,
        value: content,
        writable: true,
        enumerable: false,
        configurable: true,
      }),
    then: take(Promise.prototype, "then"),
  };
}

/**
 * Fixes what cannot be taken: every `await`, those of the platform too, asks a promise for its
 * `constructor`, and a derived one is made by what `Promise` says.
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

/** A method by itself. */
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
