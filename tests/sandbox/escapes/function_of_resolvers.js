// deno-lint-ignore-file
// ends: success [[],"EvalError"]
// A species of the task's own is given the functions that settle the promise of a call.
(async (job, cb) => {
  const foreign = [];
  let made = "not called";
  class Own extends Promise {
    constructor(executor) {
      super((resolve, reject) => {
        const settle = [executor, resolve, reject];
        for (const each of settle) if (!(each instanceof Function)) foreign.push(typeof each);
        try {
          made = executor.constructor("return typeof Deno")();
        } catch (error) {
          made = error.name;
        }
        executor(resolve, reject);
      });
    }
  }
  const promise = vmadm.get("x");
  promise.constructor = { [Symbol.species]: Own };
  await promise.then((answer) => {
    if (!(answer instanceof Object) || !(answer.args instanceof Array)) foreign.push("answer");
  });
  cb(null, [foreign, made]);
});
