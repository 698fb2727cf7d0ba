// deno-lint-ignore-file
// ends: success ["own"]
// frozen: failure /Cannot define property then, object is not extensible/
// Every object becomes a thenable: whoever resolves a promise with one calls the task.
(async (job, cb) => {
  const seen = new Set();
  Object.defineProperty(Object.prototype, "then", {
    configurable: true,
    get() {
      if (this instanceof Promise) return undefined;
      return (resolve, reject) => {
        for (const each of [this, resolve, reject]) {
          seen.add(each instanceof Object ? "own" : "foreign");
        }
        delete Object.prototype.then;
        resolve(this);
      };
    },
  });
  await vmadm.get("x");
  cb(null, [...seen]);
});
