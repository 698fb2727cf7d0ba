// deno-lint-ignore-file
// ends: failure /^An error that cannot be read$/
((job, cb) => {
  const error = new Proxy({}, {
    has: () => true,
    ownKeys() {
      throw null;
    },
  });
  cb(error);
});
