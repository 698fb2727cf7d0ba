// deno-lint-ignore-file
// ends: timeout
((job, cb) => {
  const text = "x".repeat(30_000) + "y";
  cb(null, text.replace(/(x*)*\1(x*)*\2$/, "").length);
});
