// Sources of tasks that cost their reader most: blocks within blocks that declare as many names as fit.

import { length } from "./agent_under_chaos.ts";
import { RawConnection } from "./raw_connection.ts";
import { Answers, atOnce, loadTest } from "./memory_load.ts";

const NAMES = 60_000;
/** Three of them make a name, none of which is a word of the language. */
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghjklmpqsuwxyz";
const LEVELS = length({ quick: [35, 100], full: [35, 50, 65, 80, 95, 100] });
/** Callers that post the same source at the same time. */
const CALLERS = length({ quick: 3, full: 8 });
/** Taken, refused for what it is, or refused for the moment. */
const ALLOWED = [201, 409, 413, 503];

/** A body of under 256 Ki characters. */
function nestedBody(levels: number): string {
  const { length } = LETTERS;
  const names = Array.from(
    { length: NAMES },
    (_, at) =>
      [at, at / length, at / length ** 2].map((part) => LETTERS[Math.floor(part) % length]).join(
        "",
      ),
  );
  const declared = `var ${names.join()};`;
  return `function (job, cb) { ${"{".repeat(levels)}${declared}${"}".repeat(levels)} cb(); }`;
}

for (const levels of LEVELS) {
  loadTest(`a body of ${levels} blocks declares ${NAMES} names`, async ({ agent }) => {
    const answers = new Answers(ALLOWED);
    const body = nestedBody(levels);
    await atOnce(CALLERS, async (at) => {
      const connection = await RawConnection.open(agent.url);
      try {
        const workflow = { name: `nested ${at}`, chain: [{ body }] };
        await connection.send([{ method: "POST", path: "/workflows", body: workflow }]);
        const { status, text } = await connection.answer();
        answers.add(status, text);
      } finally {
        connection.close();
      }
    });
  });
}
