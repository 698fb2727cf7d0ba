// deno-lint-ignore-file
// ends: success [[],[{"a":{"b":1}}]]
(async (job, cb) => {
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
  const inner = new Proxy({ b: 1 }, handler);
  const answer = await vmadm.create(new Proxy({ a: inner }, handler));
  cb(null, [foreign, answer.args]);
});
