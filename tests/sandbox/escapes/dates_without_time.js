// deno-lint-ignore-file
// ends: success [{"at":null},"RangeError","RangeError",0]
((job, cb) => {
  const attempts = [
    () => new Intl.DateTimeFormat("en", { timeZone: "../../etc/passwd" }),
    () => new Intl.NumberFormat("en", { minimumFractionDigits: 1e9 }),
  ];
  const told = attempts.map((attempt) => {
    try {
      return typeof attempt();
    } catch (error) {
      return error instanceof RangeError ? error.name : "foreign";
    }
  });
  Date.now = () => Infinity;
  globalThis.Date = class extends Date {
    getTime() {
      return NaN;
    }
  };
  sleep(1).then(() => cb(null, [{ at: new Date(8.64e15 + 1) }, ...told, 0]));
});
