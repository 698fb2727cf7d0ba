// deno-lint-ignore-file
// ends: success [0,"EvalError","EvalError","EvalError"]
((job, cb) => {
  const kinds = [async () => {}, function* () {}, async function* () {}];
  cb(null, [
    0,
    ...kinds.map((kind) => {
      try {
        return typeof kind.constructor("return 1");
      } catch (error) {
        return error instanceof EvalError ? "EvalError" : "foreign";
      }
    }),
  ]);
});
