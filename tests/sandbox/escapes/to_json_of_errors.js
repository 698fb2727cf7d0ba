// deno-lint-ignore-file
// ends: failure /^RangeError: Cannot record the error: it has 15000002 characters of JSON, over 262144$/
// frozen: failure /^Error: y \(task "prepare", line 6\)$/
((job, cb) => {
  Object.prototype.toJSON = () => "x".repeat(15_000_000);
  throw new Error("y");
});
