// deno-lint-ignore-file
// ends: success {"EvalError":12}
((job, cb) => {
  const starts = [
    [].values(),
    new Map().entries(),
    new Set().values(),
    "x"[Symbol.iterator](),
    "x".matchAll(/x/g),
    [].values().map((x) => x),
    Iterator.from({ next() {} }),
    (function* () {})(),
    (async function* () {})(),
    new Intl.Segmenter().segment("x")[Symbol.iterator](),
    new Proxy(function () {}, {}),
    new Date(),
  ];
  const counts = {};
  for (const start of starts) {
    let word = "made";
    try {
      let top = start;
      while (!Object.hasOwn(top, "constructor")) top = Object.getPrototypeOf(top);
      const make = typeof top.constructor === "function"
        ? top.constructor.constructor
        : top.next?.constructor ?? Object.getPrototypeOf(top).constructor.constructor;
      make("return typeof Deno");
    } catch (error) {
      word = error instanceof EvalError ? error.name : `${error}`;
    }
    counts[word] = (counts[word] ?? 0) + 1;
  }
  cb(null, counts);
});
