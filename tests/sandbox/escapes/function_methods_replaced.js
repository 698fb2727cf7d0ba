// deno-lint-ignore-file
// ends: success [0,"vmadm.get"]
// frozen: failure /Cannot redefine property: call/
(async (job, cb) => {
  const { apply } = Reflect;
  let foreign = 0;
  for (const name of ["call", "apply", "bind", "toString"]) {
    const own = Function.prototype[name];
    const value = function (...args) {
      if (Object.getPrototypeOf(this) === null || typeof this.constructor !== "function") {
        foreign += 1;
      }
      return apply(own, this, args);
    };
    Object.defineProperty(Function.prototype, name, { value, configurable: true });
  }
  const { name } = await vmadm.get("x");
  log.info("x", new Error("x"));
  await sleep(0);
  cb(null, [foreign, name]);
});
