// deno-lint-ignore-file
// ends: success [["vmadm.get"],"function"]
// frozen: failure /Cannot define property place, object is not extensible/
(async (job, cb) => {
  const seen = [];
  for (const name of ["place", "resolve", "reject", "ended", "calls", "settings"]) {
    Object.defineProperty(Object.prototype, name, {
      configurable: true,
      get: () => undefined,
      set(value) {
        seen.push(typeof value);
      },
    });
  }
  const { name } = await vmadm.get("x");
  cb(null, [[name, ...seen], typeof setTimeout]);
});
