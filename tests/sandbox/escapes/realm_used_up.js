// deno-lint-ignore-file
// ends: success [1,"undefined","undefined"]
// Whatever a task leaves at the roots of its realm, the next one finds a realm of its own.
((job, cb) => {
  const before = [typeof globalThis.probe, typeof Object.prototype.probe];
  globalThis.probe = 1;
  Object.prototype.probe = 1;
  Array.prototype.probe = 1;
  Error.probe = 1;
  console.probe = 1;
  console.log.probe = 1;
  job.log.probe = 1;
  Object.getPrototypeOf(globalThis).probe = 1;
  cb(null, [globalThis.probe, ...before]);
});
