// deno-lint-ignore-file
// ends: failure /Cannot record the result: Maximum call stack size exceeded/
((job, cb) => {
  class Deeper {
    toJSON() {
      return { deeper: new Deeper() };
    }
  }
  cb(null, new Deeper());
});
