// deno-lint-ignore-file
// ends: failure /may use import as code .*in line 4,/
(async (job, cb) => {
  cb(null, String.raw`${(await import("jsr:" + "@std/fs")).exists}`);
});
