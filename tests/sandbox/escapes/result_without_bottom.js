// deno-lint-ignore-file
// ends: failure /RangeError: Cannot record the result: it is nested deeper than 100 levels/
((job, cb) => {
  let deep = [];
  for (let depth = 0; depth < 200_000; depth++) deep = [deep];
  cb(null, deep);
});
