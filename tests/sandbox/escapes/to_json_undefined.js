// deno-lint-ignore-file
// ends: success "OK"
((job, cb) => {
  const nothing = { toJSON: () => undefined };
  log.info("x", nothing);
  console.log("%j", nothing);
  cb(null, nothing);
});
