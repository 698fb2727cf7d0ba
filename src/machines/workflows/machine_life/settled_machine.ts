// What the tasks of a machine's later life share: the short states around a boot and a halt are waited
// for. A task is one text, so this is a part of each of them.

/**
 * Source of `settled()` inside a task that has `uuid`: answers the machine once it is in none of those
 * states, or as it is after a minute; null when there is none.
 */
export const SETTLED_MACHINE = `const PASSING = ["ready", "shutting_down", "down"];
  const SETTLE_SECONDS = 60;
  const settled = async () => {
    let machine = await vmadm.get(uuid);
    for (let waited = 0; waited < SETTLE_SECONDS; waited += 1) {
      if (machine === null || !PASSING.includes(machine.state)) return machine;
      await sleep(1000);
      machine = await vmadm.get(uuid);
    }
    return machine;
  };`;
