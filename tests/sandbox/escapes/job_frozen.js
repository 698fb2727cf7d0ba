// deno-lint-ignore-file
// ends: success "OK"
((job, cb) => {
  Object.defineProperty(job, "", { value: 1, enumerable: true, configurable: false });
  delete job.log;
  Object.setPrototypeOf(job, null);
  Object.freeze(job);
  cb();
});
