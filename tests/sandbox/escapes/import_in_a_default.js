// deno-lint-ignore-file
// ends: failure /uses import\(\) in line 3/
((job, cb, fs = import("node:fs")) => cb(null, "started"));
