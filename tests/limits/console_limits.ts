// How many consoles may be open. Unused tickets: tests/http/console_tickets_test.ts, with a clock of its own.

import type { JsonObject } from "../../src/domain/json.ts";
import type { AgentProcess } from "../support/agent_process.ts";
import { until } from "../support/until.ts";
import { askRaw, consoleUrl, openConsole, UPGRADE } from "../http/console_client.ts";
import { assertOver, assertTaken, type LimitGroup, type Reach } from "./limit_case.ts";

const MACHINE: JsonObject = {
  brand: "kvm",
  vcpus: 1,
  autoboot: false,
  ram: 1024,
  disks: [{ boot: true, model: "virtio", size: 10_240 }],
  nics: [{ nic_tag: "external", model: "virtio", ip: "dhcp", primary: 1 }],
};
const SAMPLE = { artifact: { distro: "zonewright-sample", release: "latest", format: "iso" } };
const UUIDS = ["0b1a6e1c-3f52-4a57-9d6b-5a0c6f1d2e30", "0b1a6e1c-3f52-4a57-9d6b-5a0c6f1d2e31"];

/** Makes as many running machines, unless they are there. */
async function machines(agent: AgentProcess, count: number): Promise<string[]> {
  await until("the index", async () => (await agent.get("/v1/index.json")).status === 200);
  const uuids = UUIDS.slice(0, count);
  for (const uuid of uuids) {
    const posted = await agent.post("/agent/v1/machines", {
      machine: MACHINE,
      media: SAMPLE,
      uuid,
    });
    assertTaken(posted);
    await agent.job(String(posted.body.job_uuid), "success");
  }
  return uuids;
}

async function assertFull(agent: AgentProcess, uuid: string, words: string): Promise<void> {
  const { port, pathname } = new URL(consoleUrl(agent.url, uuid));
  const { status, text } = await askRaw(Number(port), pathname, UPGRADE);
  assertOver({ status, body: JSON.parse(text), headers: new Headers() }, 503, words);
}

/** Its second machine has a place for itself, but there is none in all. */
const all: Reach = async (agent, value) => {
  const [first = "", second = ""] = await machines(agent, 2);
  const open = [];
  for (let count = 0; count < value; count++) {
    open.push(await openConsole(consoleUrl(agent.url, first)));
  }
  await assertFull(agent, second, `${value} consoles are open`);
  for (const client of open) await client.close();
};

export const CONSOLE_LIMITS: LimitGroup = {
  name: "consoles",
  cases: { consoles_max: [2, all] },
};
