// deno-lint-ignore-file
// ends: failure /may use import as code .*in line 4,/
((job, cb) => {
  const { [import("blob:" + "null/0")]: module = 1 } = {};
  cb(null, module);
});
