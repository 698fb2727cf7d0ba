// deno-lint-ignore-file
// ends: failure /Cannot record the result: its JSON is over 1048576 characters/
((job, cb) => {
  const text = "x".repeat(2 ** 29 - 24);
  if (text.length !== 536_870_888) return;
  cb(null, text);
});
