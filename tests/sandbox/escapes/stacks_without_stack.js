// deno-lint-ignore-file
// ends: success {"foreign":false,"loose":[]}
// node: success /"loose":\[\]/
// Has stacks of errors written when the stack of the task is nearly used up, and looks at what is thrown
// and at everything that leads on from there. Node writes stacks by a function of the guest's realm.
((job, cb) => {
  const { getPrototypeOf, ownKeys, getOwnPropertyDescriptor } = Reflect;
  let foreign = false;
  const loose = new Set();
  const look = (thrown) => {
    let top = thrown;
    for (let up = thrown; up !== null; up = getPrototypeOf(up)) top = up;
    if (top === Object.prototype || foreign) return;
    foreign = true;
    const seen = new Set();
    const open = [thrown];
    while (open.length > 0) {
      const value = open.pop();
      if (Object(value) !== value || seen.has(value)) continue;
      seen.add(value);
      if (value !== thrown && !Object.isFrozen(value)) {
        loose.add(Object.prototype.toString.call(value));
      }
      open.push(getPrototypeOf(value));
      for (const key of ownKeys(value)) {
        const property = getOwnPropertyDescriptor(value, key);
        open.push(property.value, property.get, property.set);
      }
    }
  };
  for (let round = 0; round < 4; round++) {
    const errors = Array.from({ length: 40 }, () => new Error("x"));
    const caught = [];
    // Arguments make the frames of each round differ in size.
    const dive = (...given) => {
      try {
        dive(...given);
      } catch (error) {
        caught.push(error);
      }
      if (errors.length === 0) return;
      try {
        errors.pop().stack;
      } catch (error) {
        caught.push(error);
      }
    };
    try {
      dive(...new Array(round).fill(0));
    } catch (error) {
      caught.push(error);
    }
    for (const one of caught) look(one);
  }
  cb(null, { foreign, loose: [...loose] });
});
