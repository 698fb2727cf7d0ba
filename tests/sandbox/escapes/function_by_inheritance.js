// deno-lint-ignore-file
// ends: success ["EvalError","EvalError","EvalError","EvalError"]
((job, cb) => {
  class Own extends Function {
    constructor() {
      super("return typeof Deno");
    }
  }
  class Later extends (async () => {}).constructor {}
  const attempts = [
    () => new Own(),
    () => new Later("return typeof Deno"),
    () => Reflect.construct(Function, ["return typeof Deno"], Map),
    () => Function.bind(null, "return typeof Deno").apply(),
  ];
  cb(
    null,
    attempts.map((attempt) => {
      try {
        return typeof attempt();
      } catch (error) {
        return error instanceof EvalError ? error.name : "foreign";
      }
    }),
  );
});
