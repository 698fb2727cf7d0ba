// deno-lint-ignore-file
// ends: failure /The task has broken its own realm/
// frozen: failure /Cannot assign to "get" of the language: it is frozen/
// The realm keeps its calls in a map: without the methods of maps it ends the task, not its timeout.
(async (job, cb) => {
  Map.prototype.get = () => {
    throw new Error("broken");
  };
  await vmadm.get("x");
  cb();
});
