// deno-lint-ignore-file
// ends: success []
// Overflows the stack inside the functions of the guest and looks at what is thrown out of them.
((job, cb) => {
  const foreign = [];
  const calls = {
    setTimeout: () => clearTimeout(setTimeout(() => {}, 1e6)),
    sleep: () => sleep(1),
    log: () => log.debug("x"),
    console: () => console.log("x"),
    capability: () => vmadm.list().catch(() => {}),
    jobLog: () => job.log.info("x"),
  };
  for (const [name, call] of Object.entries(calls)) {
    const dive = () => {
      try {
        dive();
      } catch {
        // Near the end of the stack now.
      }
      try {
        call();
      } catch (error) {
        if (!(error instanceof Error)) foreign.push(name);
      }
    };
    let depth = 0;
    const once = () => {
      depth += 1;
      try {
        once();
      } catch (error) {
        if (!(error instanceof RangeError)) foreign.push(`${name} outer`);
      }
      if (depth-- % 50 !== 0) return;
      try {
        call();
      } catch (error) {
        if (!(error instanceof Error)) foreign.push(name);
      }
    };
    once();
  }
  cb(null, foreign);
});
