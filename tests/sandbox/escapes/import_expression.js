// deno-lint-ignore-file
// ends: failure /may use import as code .*in line 4,/
((job, cb) => {
  import("node:fs").then((fs) => cb(null, fs.readFileSync("/etc/hostname", "utf8")), cb);
});
