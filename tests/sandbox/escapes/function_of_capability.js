// deno-lint-ignore-file
// ends: failure /Code generation from strings disallowed/
((job, cb) => cb(null, vmadm.create.constructor("return typeof Deno")()));
