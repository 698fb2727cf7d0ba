// deno-lint-ignore-file
// ends: success ["forged","forged","forged"]
// The task fixes what the agent defines in its realm; the next realm is another one.
((job, cb) => {
  for (const name of ["setTimeout", "vmadm", "console", "probe", "undefinedLater"]) {
    try {
      Object.defineProperty(globalThis, name, { get: () => "forged", configurable: false });
    } catch {
      globalThis[name] = "forged";
    }
  }
  Object.freeze(Object.prototype);
  Object.freeze(Array.prototype);
  Object.preventExtensions(Function.prototype);
  cb(null, [setTimeout, vmadm, console]);
});
