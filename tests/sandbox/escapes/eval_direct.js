// deno-lint-ignore-file
// ends: failure /eval is not defined/
((job, cb) => cb(null, eval("typeof Deno")));
