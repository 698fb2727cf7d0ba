// deno-lint-ignore-file
// ends: failure /uses import\(\) in line 3/
((job, cb) => cb(null, [...[async () => await import("fs")]].length));
