// deno-lint-ignore-file
// ends: failure /may use import as code .*in line 4,/
((job, cb) => {
  import // nothing
  /* to see */
  ("node:os").then((os) => cb(null, os.hostname()), cb);
});
