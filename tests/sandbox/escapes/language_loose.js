// Everything that the names of the language lead to, behind getters too, can be given no property.
// ends: success "loose"
// frozen: success "fixed"
((_job, cb) => {
  const whole = (function () {
    return this;
  })();
  const names = "Object Array Map Set WeakMap WeakSet WeakRef Promise Proxy Reflect RegExp Date " +
    "Intl Math JSON Symbol String Number Boolean BigInt Function Iterator Error TypeError " +
    "AggregateError ArrayBuffer DataView Uint8Array Float64Array parseInt encodeURIComponent";
  const next = names.split(" ").map((name) => whole[name]);
  next.push(
    (async () => {}).constructor,
    (async function* () {}).constructor,
    [].values(),
    new Map().entries(),
    "a".matchAll(/a/g),
    [].values().map(String),
    new Intl.Segmenter("en").segment("a")[Symbol.iterator](),
  );
  const made = new Set(next.slice(-5));
  const seen = new Set([whole]);
  const loose = [];
  while (next.length > 0) {
    const value = next.pop();
    if (Object(value) !== value || seen.has(value)) continue;
    seen.add(value);
    if (!made.has(value) && Object.isExtensible(value)) loose.push(value);
    next.push(Object.getPrototypeOf(value));
    for (const key of Reflect.ownKeys(value)) {
      const { get, set } = Object.getOwnPropertyDescriptor(value, key);
      next.push(get, set);
      try {
        const held = value[key];
        // What a getter makes anew each time belongs to the task.
        if (held === value[key]) next.push(held);
      } catch { /* A getter for other objects. */ }
    }
  }
  cb(null, loose.length === 0 ? "fixed" : seen.size > 500 ? "loose" : "little seen");
});
