// deno-lint-ignore-file
// ends: success ["RangeError","RangeError"]
((job, cb) => {
  const attempts = [() => 2n ** (2n ** 40n), () => BigInt.asUintN(2 ** 53 - 1, -1n)];
  cb(
    null,
    attempts.map((attempt) => {
      try {
        return typeof attempt();
      } catch (error) {
        return error instanceof RangeError ? error.name : "foreign";
      }
    }),
  );
});
