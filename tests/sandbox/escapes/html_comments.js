// deno-lint-ignore-file
// deno-fmt-ignore-file
// ends: success ["kept"]
// Comments of another age end where lines do, for the parser and for the engine.
(function (job, cb) {
  const told = ["kept"]; <!-- told.push(nothing.there);
  --> told.push(nothing.there);
  cb(null, told);
});
