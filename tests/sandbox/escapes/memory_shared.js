// deno-lint-ignore-file
// ends: success []
// Neither shared memory nor waiting on it can be had by another road.
((job, cb) => {
  const found = [];
  const names = [
    "SharedArrayBuffer",
    "Atomics",
    "WebAssembly",
    "FinalizationRegistry",
    "ShadowRealm",
  ];
  const seen = new Set();
  const open = [globalThis, Intl, (async function* () {})(), new ArrayBuffer(8), new WeakRef({})];
  while (open.length > 0) {
    const value = open.pop();
    const object = (typeof value === "object" || typeof value === "function") && value !== null;
    if (!object || seen.has(value)) continue;
    seen.add(value);
    const tag = value[Symbol.toStringTag];
    if (names.includes(value.name) || names.includes(tag)) found.push(`${value.name} ${tag}`);
    open.push(Object.getPrototypeOf(value));
    for (const key of Reflect.ownKeys(value)) {
      const { value: inner, get, set } = Object.getOwnPropertyDescriptor(value, key);
      open.push(inner, get, set);
    }
  }
  const views = [new Uint8Array(8), new DataView(new ArrayBuffer(8, { maxByteLength: 16 }))];
  for (const { buffer } of views) if (!(buffer instanceof ArrayBuffer)) found.push("a buffer");
  cb(null, found);
});
