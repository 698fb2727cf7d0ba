// deno-lint-ignore-file
// ends: success {"traps":0,"a":1}
((job, cb) => {
  const foreign = [];
  const handler = new Proxy({}, {
    get: (_target, trap) => (...args) => {
      for (const arg of args) {
        const object = (typeof arg === "object" || typeof arg === "function") && arg !== null;
        if (object && !(arg instanceof Object)) foreign.push(String(trap));
      }
      return Reflect[trap](...args);
    },
  });
  const target = {
    get traps() {
      return foreign.length;
    },
    a: 1,
  };
  cb(null, new Proxy(target, handler));
});
