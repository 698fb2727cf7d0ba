// deno-lint-ignore-file
// ends: success ["own","own"]
((job, cb) => ({
  then(resolve, reject) {
    cb(null, [resolve, reject].map((f) => f instanceof Function ? "own" : "foreign"));
    resolve();
  },
}));
