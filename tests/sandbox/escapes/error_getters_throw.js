// deno-lint-ignore-file
// ends: failure /^An error that cannot be read \(task "prepare"\)$/
(() => {
  const error = new Error("x");
  for (const name of ["stack", "name", "message", "cause", "statusCode"]) {
    Object.defineProperty(error, name, {
      get() {
        throw error;
      },
    });
  }
  throw error;
});
