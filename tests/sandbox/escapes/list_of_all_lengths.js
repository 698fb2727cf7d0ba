// deno-lint-ignore-file
// ends: failure /Cannot record the result: Invalid string length|OutOfMemory/
((job, cb) => {
  const holes = [];
  holes.length = 2 ** 32 - 1;
  cb(null, holes);
});
