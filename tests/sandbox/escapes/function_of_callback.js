// deno-lint-ignore-file
// ends: failure /Code generation from strings disallowed/
((job, cb) => cb(null, cb.constructor("return typeof Deno")()));
