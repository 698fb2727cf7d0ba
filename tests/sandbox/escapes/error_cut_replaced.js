// deno-lint-ignore-file
// ends: failure /^RangeError: Cannot record the error: it has 10000001 characters of JSON, over 262144$/
// frozen: failure /Cannot assign to "slice" of the language: it is frozen/
((job, cb) => {
  String.prototype.slice = () => Array(10_000_000).join("x");
  cb("y");
});
