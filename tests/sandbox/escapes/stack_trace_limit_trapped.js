// deno-lint-ignore-file
// ends: success [0,"undefined"]
// frozen: failure /Cannot redefine property: stackTraceLimit/
((job, cb) => {
  let asked = 0;
  Object.defineProperty(Error, "stackTraceLimit", {
    get() {
      asked += 1;
      return 1e9;
    },
  });
  try {
    null.x;
  } catch (error) {
    cb(null, [asked, typeof error.stack]);
  }
});
