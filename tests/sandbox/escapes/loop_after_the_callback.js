// deno-lint-ignore-file
// ends: timeout
((job, cb) => {
  cb();
  for (;;);
});
