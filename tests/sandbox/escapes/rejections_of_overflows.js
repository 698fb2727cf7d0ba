// deno-lint-ignore-file
// ends: success []
// node: success /^\[("object",?)*\]$/
// An async function of the task overflows the stack in the guest's functions: its rejection goes to
// a species of the task's own.
(async (job, cb) => {
  const foreign = [];
  const look = (error) => {
    if (!(error instanceof Error) || error.constructor.constructor !== Function) {
      foreign.push(typeof error);
    }
  };
  async function overflow(call) {
    const dive = () => {
      call();
      dive();
    };
    dive();
  }
  const calls = [
    () => new Error("x").stack,
    () => clearTimeout(setTimeout(() => {}, 1e6)),
    () => console.log("x"),
    () => Error.captureStackTrace({}),
  ];
  const told = calls.map((call) => {
    const promise = overflow(call);
    return new Promise((resolve) => {
      promise.constructor = {
        [Symbol.species]: class {
          constructor(executor) {
            executor(() => {}, () => {});
          }
        },
      };
      promise.then(resolve, (error) => resolve(look(error)));
    });
  });
  await Promise.all(told);
  cb(null, foreign);
});
