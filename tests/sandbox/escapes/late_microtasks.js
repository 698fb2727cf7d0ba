// deno-lint-ignore-file
// ends: success "told"
// Goes on after the callback for as long as the guest lets it, and tries to be heard.
(async (job, cb) => {
  cb(null, "told");
  for (let turn = 0; turn < 5000; turn++) await null;
  globalThis.probe = 1;
  Object.prototype.probe = 1;
  setTimeout(() => cb("late"), 0);
  vmadm.list();
  info({ late: true });
  Promise.reject(new Error("late"));
  throw new Error("late");
});
