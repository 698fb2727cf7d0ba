// deno-lint-ignore-file
// ends: failure /may use import as code .*in line 5,/
(function (job, cb) {
with (job) {
    label: import("http:" + "//127.0.0.1:1/probe.js").then(cb, cb);
  }
});
