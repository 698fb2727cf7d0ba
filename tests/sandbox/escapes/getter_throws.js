// deno-lint-ignore-file
// ends: failure /Cannot record the job: from a getter/
((job, cb) => {
  Object.defineProperty(job, "x", {
    enumerable: true,
    get() {
      throw new Error("from a getter");
    },
  });
  cb();
});
