// deno-lint-ignore-file
// ends: failure /Code generation from strings disallowed/
((job, cb) => cb(null, console.log.constructor.constructor("return typeof Deno")()));
