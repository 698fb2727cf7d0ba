// deno-lint-ignore-file
// ends: failure /^ReferenceError: Reflect is not defined/
((job, cb) => {
  delete globalThis.Reflect;
  cb();
});
