// deno-lint-ignore-file
// ends: failure /^404: own$/
// An error of HTTP is kept as its own JSON, which its toJSON() writes.
((job, cb) => {
  const fields = { statusCode: 404, message: "own", __proto__: { polluted: 1 } };
  cb({ statusCode: 500, toJSON: () => fields });
});
