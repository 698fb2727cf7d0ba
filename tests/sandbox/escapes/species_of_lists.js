// deno-lint-ignore-file
// ends: success [[],"x 1 {}"]
// frozen: failure /Cannot redefine property: Symbol\(Symbol\.species\)/
// Lists made around the task take their kind from a constructor of the task's own.
(async (job, cb) => {
  const foreign = [];
  class Own extends Array {
    constructor(...args) {
      super(...args);
      for (const each of args) {
        if (typeof each === "object" && !(each instanceof Object)) foreign.push(typeof each);
      }
    }
  }
  Object.defineProperty(Array, Symbol.species, { get: () => Own });
  Object.defineProperty(Array.prototype, "constructor", { value: Own });
  console.log("x %d", 1, {}, [2]);
  log.info("x", [1]);
  const answer = await vmadm.get("x", 1, {});
  cb(null, [foreign, answer.args.map((each) => typeof each === "object" ? "{}" : each).join(" ")]);
});
