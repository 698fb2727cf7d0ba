// deno-lint-ignore-file
// ends: success "internal"
// frozen: failure /Cannot assign to "assign" of the language: it is frozen/
// The refusal of a call is written down with methods that were taken before the task broke them.
(async (job, cb) => {
  Object.defineProperty = Object.assign = () => {
    throw new Error("broken");
  };
  cb(null, await vmadm.delete("refused").catch((error) => error.code));
});
