// deno-lint-ignore-file
// ends: success "import(x)"
((job, cb) => {
  // import("node:fs") in a comment is no import.
  cb(null, "import(x)");
});
