// deno-lint-ignore-file
// ends: timeout
((job, cb) => cb(null, /^(a+)+$/.test("a".repeat(60) + "b")));
