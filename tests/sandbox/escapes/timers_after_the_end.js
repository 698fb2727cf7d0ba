// deno-lint-ignore-file
// ends: success "told"
((job, cb) => {
  const late = () => {
    globalThis.probe = 1;
    vmadm.delete("late");
    setTimeout(late, 0);
    cb(new Error("late"));
    throw new Error("late");
  };
  for (let count = 0; count < 500; count++) setTimeout(late, count % 3);
  cb(null, "told");
});
