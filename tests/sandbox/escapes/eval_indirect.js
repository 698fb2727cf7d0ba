// deno-lint-ignore-file
// ends: failure /globalThis.eval is not a function/
((job, cb) => cb(null, globalThis.eval("typeof Deno")));
