// deno-lint-ignore-file
// ends: failure /may use import as code .*in line 4,/
(async (job, cb) => {
  for await (const module of [import("npm:" + "left-pad@1.3.0")]) cb(null, typeof module);
});
