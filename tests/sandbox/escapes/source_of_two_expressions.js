// deno-lint-ignore-file
// ends: failure /is not a function definition/
((job, cb) => cb()), globalThis.probe = 1, ((job, cb) => cb());
