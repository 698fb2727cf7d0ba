// deno-lint-ignore-file
// ends: success [true,0]
((job, cb) => {
  const sites = [];
  const own = Error;
  const fake = { prepareStackTrace: (error, found) => sites.push(...found) };
  for (
    const attempt of [
      () => globalThis.Error = fake,
      () => delete globalThis.Error,
      () => Object.defineProperty(globalThis, "Error", { value: fake }),
      () => Object.defineProperty(globalThis, "Error", { get: () => fake }),
      () => Object.setPrototypeOf(globalThis, { Error: fake }),
    ]
  ) {
    try {
      attempt();
    } catch {
      // Refused aloud.
    }
    try {
      null.x;
    } catch (error) {
      error.stack;
    }
  }
  cb(null, [Error === own, sites.length]);
});
