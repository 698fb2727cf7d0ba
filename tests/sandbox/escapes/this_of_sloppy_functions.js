// deno-lint-ignore-file
// ends: success [true,true,"undefined",[]]
(function (job, cb) {
  const outer = this;
  const inner = (function () {
    return this;
  })();
  var probe = 1;
  undeclared = 1;
  const foreign = [];
  for (let at = outer; at !== null && at !== undefined; at = Object.getPrototypeOf(at)) {
    const { constructor } = at;
    if (!(constructor instanceof Function)) foreign.push(typeof constructor);
  }
  const same = outer === undefined || outer === globalThis;
  cb(null, [same, inner === globalThis, typeof inner.Deno, foreign]);
});
