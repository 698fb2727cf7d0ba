// deno-lint-ignore-file
// ends: timeout
((job, cb) => {
  const numbers = new Float64Array(3e6).map(() => Math.random());
  for (;;) numbers.sort((a, b) => b - a);
});
