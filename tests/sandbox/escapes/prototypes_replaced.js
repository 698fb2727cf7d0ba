// deno-lint-ignore-file
// ends: success []
// Replaces the methods that the code around a task might use, and looks at what they are given.
(async (job, cb) => {
  const foreign = [];
  const { apply } = Reflect;
  let looking = false;
  const look = (value) => {
    const object = (typeof value === "object" || typeof value === "function") && value !== null;
    if (object && value !== globalThis && !(value instanceof Object)) {
      foreign[foreign.length] = typeof value;
    }
  };
  for (const type of [Map, Set, Array, Promise, String, Function, Object, RegExp, Number]) {
    for (const key of Reflect.ownKeys(type.prototype)) {
      const property = Object.getOwnPropertyDescriptor(type.prototype, key);
      if (typeof property.value !== "function" || key === "constructor") continue;
      const own = property.value;
      property.value = function (...args) {
        if (!looking) {
          looking = true;
          look(this);
          for (let at = 0; at < args.length; at++) look(args[at]);
          looking = false;
        }
        return apply(own, this, args);
      };
      try {
        Object.defineProperty(type.prototype, key, property);
      } catch {
        // Fixed by the language.
      }
    }
  }
  await vmadm.get("x");
  await sleep(1);
  log.info("x", { a: 1 });
  console.log("%j", { a: 1 });
  cb(null, foreign);
});
