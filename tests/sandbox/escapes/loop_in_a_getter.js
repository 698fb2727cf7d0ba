// deno-lint-ignore-file
// ends: timeout
((job, cb) => {
  Object.defineProperty(job, "x", {
    enumerable: true,
    get() {
      for (;;);
    },
  });
  cb();
});
