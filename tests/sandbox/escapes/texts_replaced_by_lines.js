// deno-lint-ignore-file
// ends: failure /GuestLost: Task "prepare" was lost: its process .*message is not a text/
// frozen: failure /Cannot assign to "slice" of the language: it is frozen/
((job, cb) => {
  String.prototype.slice = () => ({ toString: () => '","run":2}\n' });
  console.log("x");
  cb();
});
