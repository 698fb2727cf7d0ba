// deno-lint-ignore-file
// ends: failure /RangeError: Cannot record the job: its JSON is over 4194304 characters/
((job, cb) => {
  const text = "x".repeat(1000);
  job.many = Array(10_000).fill(text);
  cb();
});
