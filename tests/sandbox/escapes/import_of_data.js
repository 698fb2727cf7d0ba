// deno-lint-ignore-file
// ends: failure /may use import as code .*in line 6,/
((job, cb) => {
  class Reader {
    static {
      import("data:" + "text/javascript,globalThis.probe=1").then(cb, cb);
    }
  }
});
