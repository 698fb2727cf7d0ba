// deno-lint-ignore-file
// ends: success "told"
// Never lets its guest turn again: that guest is lost, and the outcome told before stands.
(async (job, cb) => {
  cb(null, "told");
  for (;;) await null;
});
