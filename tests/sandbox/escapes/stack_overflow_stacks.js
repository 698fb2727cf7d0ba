// deno-lint-ignore-file
// ends: success []
// Reads stacks with the stack nearly used up: nothing of another realm may be thrown.
((job, cb) => {
  const foreign = [];
  let depth = 0;
  const read = (error) => {
    try {
      error.stack;
    } catch (thrown) {
      if (!(thrown instanceof Error)) foreign.push(typeof thrown);
    }
  };
  const once = () => {
    depth += 1;
    const error = new Error("x");
    try {
      once();
    } catch (thrown) {
      if (!(thrown instanceof RangeError)) foreign.push("outer");
    }
    if (depth-- % 10 === 0) read(error);
  };
  once();
  cb(null, foreign);
});
