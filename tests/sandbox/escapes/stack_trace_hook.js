// deno-lint-ignore-file
// ends: success ["function",0]
((job, cb) => {
  const sites = [];
  Error.prepareStackTrace = (error, found) => {
    sites.push(...found);
    return "";
  };
  new Error("x").stack;
  try {
    null.x;
  } catch (error) {
    error.stack;
  }
  cb(null, [typeof Error.prepareStackTrace, sites.length]);
});
