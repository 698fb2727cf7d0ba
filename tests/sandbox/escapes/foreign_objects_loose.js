// deno-lint-ignore-file
// ends: success "closed"
// All that can be reached from an object of another realm, by properties and by calls, that can be
// changed.
(async (job, cb) => {
  if (typeof foreign === "undefined") return cb(null, "closed");
  const { getPrototypeOf, ownKeys, getOwnPropertyDescriptor, apply } = Reflect;
  const loose = [];
  const seen = new Set();
  const open = [];
  const given = [undefined, 1, "a", {}, [], () => ({ next: () => ({ done: true }) })];
  let calls = 0;
  const look = (value, path, depth) => {
    if (Object(value) !== value || seen.has(value)) return;
    open.push([value, path, depth]);
  };
  for (const [name, value] of Object.entries(foreign.language)) look(value, name, 0);
  while (open.length > 0) {
    const [value, path, depth = 0] = open.pop();
    if (seen.has(value)) continue;
    seen.add(value);
    // What a call makes is its caller's; what it inherits is everybody's.
    if (depth === 0 && !Object.isFrozen(value) && !ArrayBuffer.isView(value)) loose.push(path);
    const up = getPrototypeOf(value);
    if (up !== null && up !== Object.prototype) look(up, path + ".__proto__", 0);
    for (const key of ownKeys(value)) {
      const property = getOwnPropertyDescriptor(value, key);
      for (const part of ["value", "get", "set"]) {
        look(property[part], path + "." + String(key), depth);
      }
    }
    if (typeof value !== "function" || calls > 20000) continue;
    for (const self of [undefined, "a", /a/g, [], {}, new Map(), new Set(), [].values()]) {
      for (const argument of given) {
        calls += 1;
        try {
          const made = apply(value, self, [argument, argument]);
          if (made instanceof Object || Object(made) !== made) continue;
          look(getPrototypeOf(made), path + "()", 0);
          if (typeof made.catch === "function") made.catch(() => {});
        } catch {
          // Not for this.
        }
      }
    }
  }
  cb(null, { loose: loose.slice(0, 20), seen: seen.size > 100 });
});
