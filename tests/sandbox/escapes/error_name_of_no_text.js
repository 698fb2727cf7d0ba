// deno-lint-ignore-file
// ends: failure /^Error: \["__proto__"\]$/
((job, cb) => {
  const message = { toString: () => JSON.stringify(["__proto__"]) };
  cb({ name: { toString: () => "forged", toJSON: () => "forged" }, message });
});
