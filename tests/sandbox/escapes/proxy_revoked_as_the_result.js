// deno-lint-ignore-file
// ends: failure /Cannot record the result: .*has been revoked/
((job, cb) => {
  const { proxy, revoke } = Proxy.revocable([], {});
  revoke();
  cb(null, { proxy });
});
