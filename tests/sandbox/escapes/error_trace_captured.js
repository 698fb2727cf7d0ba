// deno-lint-ignore-file
// ends: success [true,"task"]
// The stack is written when it is asked for: by then its owner may be a function or the global.
((job, cb) => {
  const shown = [];
  const owners = [{}, () => {}, [], vmadm.create, cb];
  for (const owner of owners) {
    Error.captureStackTrace(owner, null);
    Object.defineProperty(owner, "name", { value: { toString: () => "name" } });
    shown.push(...`${owner.stack}`.split("\n").filter((line) => line.startsWith("    at ")));
  }
  const places = new Set(shown.map((line) => /task:\/\/\[prepare\]/.test(line) ? "task" : line));
  cb(null, [shown.length >= owners.length, ...places]);
});
