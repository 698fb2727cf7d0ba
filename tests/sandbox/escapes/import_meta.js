// deno-lint-ignore-file
// ends: failure /is not a function definition: Cannot use 'import.meta' outside a module/
((job, cb) => cb(null, import.meta.url));
