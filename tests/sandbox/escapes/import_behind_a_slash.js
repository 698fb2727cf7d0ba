// deno-lint-ignore-file
// deno-fmt-ignore-file
// ends: failure /may use import as code .*in line 8,/
// A division to V8, a regular expression to one parser.
(function (job, cb) {
  let p, g = 1, a = null;
  a?.of
  / (p = import("node:fs")) /g
  p.then(cb, cb);
});
