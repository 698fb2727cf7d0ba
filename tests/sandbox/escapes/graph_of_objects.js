// deno-lint-ignore-file
// ends: success []
// Walks everything that can be reached from the globals: each object must be of this realm.
((job, cb) => {
  const foreign = [];
  const seen = new Set();
  const roots = [
    job,
    cb,
    globalThis,
    (function () {
      return this;
    })(),
    async () => {},
  ];
  const open = roots.map((value, index) => [value, `root ${index}`]);
  while (open.length > 0) {
    const [value, path] = open.pop();
    if ((typeof value !== "object" && typeof value !== "function") || value === null) continue;
    if (seen.has(value)) continue;
    seen.add(value);
    if (typeof value === "function" && !(value instanceof Function)) {
      if (value !== Function.prototype) foreign.push(path);
    }
    let last = value;
    for (let up = value; up !== null; up = Object.getPrototypeOf(up)) last = up;
    if (last !== Object.prototype && last !== globalThis && typeof last === "function") {
      foreign.push(path);
    }
    open.push([Object.getPrototypeOf(value), `${path}.__proto__`]);
    for (const key of Reflect.ownKeys(value)) {
      const property = Object.getOwnPropertyDescriptor(value, key);
      for (const part of ["value", "get", "set"]) {
        if (property !== undefined) open.push([property[part], `${path}.${String(key)}`]);
      }
      if (String(key) === "constructor" && typeof property?.value === "function") {
        if (property.value.constructor.constructor !== Function && foreign.length < 20) {
          if (!(property.value instanceof Function)) foreign.push(`${path} constructor`);
        }
      }
    }
  }
  cb(null, seen.size > 500 ? foreign : ["too few objects"]);
});
