// deno-lint-ignore-file
// ends: failure /^Symbol\(queue\)$/
((job, cb) => cb(Symbol("queue")));
