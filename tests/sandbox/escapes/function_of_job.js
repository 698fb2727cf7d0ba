// deno-lint-ignore-file
// ends: failure /Code generation from strings disallowed/
((job, cb) => cb(null, job.constructor.constructor("return typeof Deno")()));
