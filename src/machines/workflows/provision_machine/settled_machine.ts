// What create_machine and undo share: vmadm goes on when the agent dies, so a machine of theirs may
// still be in the making, or about to appear. A task is one text, so this is a part of both texts.

/**
 * Source of `settled(appear_seconds)` inside a task that has `uuid`: answers the machine as a create
 * that is under way leaves it, or as one that died has left it; null when none has appeared for so
 * many seconds. `UNSETTLED` are the states of a machine in the making.
 */
export const SETTLED_MACHINE = `const UNSETTLED = ["configured", "incomplete", "provisioning"];
  // A zone is installed without a change to be seen for as long as the pool is slow, and deleting it
  // meanwhile would leave behind what its vmadm still makes.
  const QUIET_SECONDS = 60;
  // Longer than every state may be quiet in its turn.
  const SETTLE_SECONDS = 300;
  const settled = async (appear_seconds) => {
    let machine = await vmadm.get(uuid);
    let quiet = 0;
    for (let waited = 0; waited < SETTLE_SECONDS; waited += 1) {
      if (machine !== null && !UNSETTLED.includes(machine.state)) return machine;
      if (quiet >= (machine === null ? appear_seconds : QUIET_SECONDS)) return machine;
      const before = machine && machine.state;
      await sleep(1000);
      machine = await vmadm.get(uuid);
      quiet = (machine && machine.state) === before ? quiet + 1 : 0;
    }
    return machine;
  };`;
