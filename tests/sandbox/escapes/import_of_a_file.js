// deno-lint-ignore-file
// ends: failure /may use import as code .*in line 5,/
((job, cb) => {
  class Reader {
    read = import("file://" + "/etc/hostname");
  }
  new Reader().read.then(cb, cb);
});
