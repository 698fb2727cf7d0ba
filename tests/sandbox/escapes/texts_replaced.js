// deno-lint-ignore-file
// ends: failure /GuestLost: Task "prepare" was lost: its process .*it is not JSON/
// frozen: failure /Cannot assign to "slice" of the language: it is frozen/
// A log line without a message is no message of the protocol: the guest is not believed any more.
((job, cb) => {
  String.prototype.slice = () => undefined;
  log.info("x");
  cb();
});
