// deno-lint-ignore-file
// ends: failure /The task has broken its own realm/
// frozen: success "Cannot perform vmadm.delete: an internal error"
// The place of a call is the task's own object by then; its getter breaks the refusal of the call.
(async (job, cb) => {
  Error.captureStackTrace = (place) => {
    Object.defineProperty(place, "stack", {
      get() {
        throw new Error(place instanceof Object ? "own" : "foreign");
      },
    });
  };
  cb(null, await vmadm.delete("refused").catch((error) => error.message));
});
