// deno-lint-ignore-file
// ends: success [["Deno","job","probe"],[]]
(function (job, cb) {
  const asked = new Set();
  const foreign = [];
  const scope = new Proxy({}, {
    has(target, name) {
      if (!(target instanceof Object)) foreign.push(typeof target);
      if (typeof name === "string" && name !== "cb" && name !== "asked") asked.add(name);
      return false;
    },
    get(_target, name, receiver) {
      if (!(receiver instanceof Object)) foreign.push(String(name));
    },
  });
with (scope) {
    typeof Deno;
    job.probe;
    typeof probe;
    globalThis: for (;;) break globalThis;
    log: {
      break log;
    }
  }
  cb(null, [[...asked].sort(), foreign]);
});
