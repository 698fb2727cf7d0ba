// deno-lint-ignore-file
// ends: success ["own",1]
// frozen: failure /Cannot assign to "then" of the language: it is frozen/
(async (job, cb) => {
  const { then } = Promise.prototype;
  let foreign = 0;
  Promise.prototype.then = function (...args) {
    for (const each of [this, ...args]) if (!(each instanceof Object)) foreign += 1;
    return Reflect.apply(then, this, args);
  };
  Promise.prototype.catch = Promise.prototype.finally = () => foreign += 1;
  Promise.resolve = Promise.reject = () => foreign += 1;
  const answer = await vmadm.get("x");
  await sleep(1);
  cb(null, [foreign === 0 && answer instanceof Object ? "own" : foreign, answer.args.length]);
});
