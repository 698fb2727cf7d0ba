// deno-lint-ignore-file
// ends: success "inner"
((job, cb) => {
  let once = false;
  Object.defineProperty(job, "again", {
    enumerable: true,
    get() {
      if (!once) {
        once = true;
        cb(null, "inner");
      }
      return 1;
    },
  });
  cb(null, "outer");
});
