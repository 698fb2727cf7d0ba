// deno-lint-ignore-file
// ends: success ["EvalError"]
// The constructors behind every error of the language, and behind errors of the task's own kinds.
((job, cb) => {
  class Own extends AggregateError {}
  const thrown = [new Own([]), new Error("x", { cause: new Own([]) }).cause];
  const attempts = [
    () => null.x,
    () => nothingOfThisName,
    () => new Array(-1),
    () => decodeURIComponent("%"),
    () => new RegExp("["),
    () => thrown.constructor.constructor("return 1")(),
    () => setTimeout(1),
  ];
  for (const attempt of attempts) {
    try {
      attempt();
    } catch (error) {
      thrown.push(error);
    }
  }
  const told = thrown.map((error) => {
    let made = "none";
    for (let at = error; at !== null; at = Object.getPrototypeOf(at)) {
      try {
        made = typeof at.constructor.constructor("return typeof Deno")();
      } catch (refusal) {
        made = refusal instanceof EvalError ? refusal.name : "foreign";
      }
    }
    return made;
  });
  cb(null, thrown.length === 9 ? [...new Set(told)] : thrown.length);
});
