// deno-lint-ignore-file
// ends: success []
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
  const fields = new Proxy({ a: 1 }, handler);
  log.info(fields, fields);
  console.log("%s %j %d %o", fields, fields, fields, fields);
  job.log.child(fields).error(fields, fields);
  cb(null, foreign);
});
