// deno-lint-ignore-file
// ends: failure /^Error: own$/
((job, cb) => {
  const error = new Error("own");
  error.cause = error;
  error.errors = [error];
  Object.setPrototypeOf(error, new Proxy(Error.prototype, {}));
  cb(error);
});
