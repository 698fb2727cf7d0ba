// deno-lint-ignore-file
// ends: success []
// frozen: failure /Cannot define property Symbol\(nodejs\.util\.inspect\.custom\), object is not extensible/
// The symbols by which platforms let objects print themselves: nobody here may call them.
(async (job, cb) => {
  const called = [];
  const names = ["nodejs.util.inspect.custom", "Deno.customInspect", "Deno.privateCustomInspect"];
  const own = new Error("x");
  for (const value of [own, Object.prototype, Function.prototype]) {
    for (const name of names) {
      Object.defineProperty(value, Symbol.for(name), {
        value: (...args) => {
          called.push(args.map((arg) => typeof arg));
          return args.at(-1)?.constructor?.constructor?.("return typeof Deno")();
        },
      });
    }
  }
  console.log(own, "%o", own);
  log.error(own, { own });
  await vmadm.create({ own });
  await Promise.reject(own).catch(console.error);
  cb(null, called);
});
