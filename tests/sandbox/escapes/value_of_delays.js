// deno-lint-ignore-file
// ends: success [6,"TypeError","TypeError"]
(async (job, cb) => {
  let asked = 0;
  const delay = {
    valueOf() {
      asked += 1;
      return { 1: NaN, 2: -Infinity, 3: -1 }[asked] ?? 0;
    },
  };
  await sleep(delay);
  await sleep(delay);
  await sleep(delay);
  await new Promise((resolve) => setTimeout(resolve, delay));
  clearTimeout(delay);
  await sleep({ [Symbol.toPrimitive]: (hint) => hint === "number" ? (asked++, "0") : "1e9" });
  const refused = [() => setTimeout(() => {}, Symbol("x")), () => clearTimeout(Symbol("x"))];
  const told = refused.map((attempt) => {
    try {
      attempt();
    } catch (error) {
      return error instanceof TypeError ? error.name : "foreign";
    }
  });
  cb(null, [asked, ...told]);
});
