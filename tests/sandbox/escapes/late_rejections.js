// deno-lint-ignore-file
// ends: success "told"
// Rejections that nobody handles are told when the task is over: they belong to nobody then.
((job, cb) => {
  for (let count = 0; count < 100; count++) Promise.reject(new Error("late"));
  Promise.resolve().then(() => Promise.reject(new Error("later")));
  cb(null, "told");
  Promise.reject(new Error("last"));
});
