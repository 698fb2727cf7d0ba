// deno-lint-ignore-file
// ends: failure /^An error that cannot be read$/
((job, cb) => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  cb(proxy);
});
