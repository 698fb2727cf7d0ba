// deno-lint-ignore-file
// ends: timeout
// The refusal of a call is written down with methods that the task has broken: it waits for it.
(async (job, cb) => {
  Object.defineProperty = Object.assign = () => {
    throw new Error("broken");
  };
  cb(null, await vmadm.delete("refused").catch((error) => error.code));
});
