// deno-lint-ignore-file
// ends: failure /^forged$/
// frozen: success {"a":1}
// The job and the error about it are written as the task wants them: as JSON all the same.
((job, cb) => {
  Object.prototype.toJSON = () => "forged";
  cb(null, { a: 1 });
});
