// deno-lint-ignore-file
// ends: success {"a":1}
((job, cb) => cb(null, { a: 1, then: (resolve) => resolve({ a: 2 }) }));
