// deno-lint-ignore-file
// ends: failure /may use import as code .*in line 3,/
((job, cb) => cb(null, [...[async () => await import("fs")]].length));
