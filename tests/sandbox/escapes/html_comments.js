// deno-lint-ignore-file
// deno-fmt-ignore-file
// ends: success ["kept"]
// Comments of another age end where lines do, for the parser and for the engine.
(function (job, cb) {
  const told = ["kept"]; <!-- told.push(import("node:fs"));
  --> told.push(import("node:fs"));
  cb(null, told);
});
