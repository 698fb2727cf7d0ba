// deno-lint-ignore-file
// ends: success "OK"
((job, cb) => {
  Object.prototype.type = "closed";
  Object.prototype.run = 7;
  Object.prototype.then = undefined;
  Object.prototype.kind = "signal";
  cb();
});
