// deno-lint-ignore-file
// deno-fmt-ignore-file
// ends: failure /may use import as code .*in line 7,/
// Which of the two marks begins a comment, and where, parsers have told apart differently.
(function (job, cb) {
  let n = 1;
  while (n --> 0) cb(null, 1 <!-- import("node:fs")
  );
});
