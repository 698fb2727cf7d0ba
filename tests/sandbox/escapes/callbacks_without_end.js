// deno-lint-ignore-file
// ends: success 0
((job, cb) => {
  for (let count = 0; count < 5000; count++) cb(null, [count][0] || { toJSON: () => 0 });
});
