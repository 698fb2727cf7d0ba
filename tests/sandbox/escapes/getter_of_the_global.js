// deno-lint-ignore-file
// ends: success [true,"undefined"]
((job, cb) => {
  let seen;
  Object.defineProperty(globalThis, "probe", {
    get() {
      seen = this;
      return 1;
    },
    configurable: true,
  });
  globalThis.probe;
  probe;
  cb(null, [seen === globalThis || Object.getPrototypeOf(seen) === null, typeof seen.Deno]);
});
