// deno-lint-ignore-file
// ends: failure /nested deeper than 100/
((job, cb) => {
  let deep = {};
  for (let depth = 0; depth < 200; depth++) deep = { deep };
  cb(null, deep);
});
