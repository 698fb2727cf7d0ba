// deno-lint-ignore-file
// ends: failure /^x{16384}$/
((job, cb) => cb("x".repeat(50_000_000)));
