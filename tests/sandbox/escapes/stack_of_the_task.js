// deno-lint-ignore-file
// ends: success []
// No stack may name a file of the agent or the code around the task, whatever is thrown where.
(async (job, cb) => {
  const shown = [];
  const look = (error) => {
    const own = Reflect.ownKeys(error).filter((key) => !["stack", "message", "code"].includes(key));
    shown.push(...own.map(String));
    const frames = `${error.stack}`.split("\n").slice(1);
    shown.push(...frames.filter((frame) => !/task:\/\/\[prepare\](:\d+:\d+)?\)?$/.test(frame)));
  };
  const attempts = [
    () => null.x,
    () => setTimeout("text"),
    () => JSON.parse("{"),
    () => [1].map(() => null.x),
    () => new Proxy({}, { get: () => null.x }).y,
    () => Reflect.apply(() => null.x, null, []),
  ];
  for (const attempt of attempts) {
    try {
      attempt();
    } catch (error) {
      look(error);
    }
  }
  Error.stackTraceLimit = Infinity;
  look(new Error("all frames"));
  await vmadm.delete("refused").catch(look);
  await vmadm.create(1n).catch(look);
  await new Promise((resolve) => setTimeout(() => resolve(look(new Error("timer"))), 0));
  const dive = () => dive();
  try {
    dive();
  } catch (error) {
    look(error);
  }
  cb(null, shown);
});
