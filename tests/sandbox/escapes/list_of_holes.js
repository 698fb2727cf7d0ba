// deno-lint-ignore-file
// ends: failure /RangeError: Cannot record the result: its JSON is over 1048576 characters/
((job, cb) => {
  const holes = [];
  holes[1_000_000] = 1;
  cb(null, holes);
});
