// deno-lint-ignore-file
// ends: success ["TypeError","TypeError",0]
((job, cb) => {
  const sites = [];
  const value = (error, found) => sites.push(...found);
  const caught = [];
  for (
    const attempt of [
      () => Object.defineProperty(Error, "prepareStackTrace", { value }),
      () => Object.defineProperty(Error, "prepareStackTrace", { get: () => value }),
    ]
  ) {
    try {
      attempt();
    } catch (error) {
      caught.push(error instanceof TypeError ? "TypeError" : "foreign");
    }
  }
  TypeError.prepareStackTrace = RangeError.prepareStackTrace = value;
  new TypeError("x").stack;
  cb(null, [...caught, sites.length]);
});
