// deno-lint-ignore-file
// ends: failure /may use import as code .*in line 3,/
((job, cb, fs = import("node:fs")) => cb(null, "started"));
