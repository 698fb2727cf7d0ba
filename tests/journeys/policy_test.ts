// The operator's policy, from the flags of the agent to the refusal of a request and of a task, and
// what the job's timeline tells of both.

import { assertEquals, assertStringIncludes } from "@std/assert";
import { isJsonObject, type JsonObject } from "../../src/domain/json.ts";
import { runProgram, startAgentProcess } from "../support/agent_process.ts";
import { until, withFolder } from "../support/until.ts";
import { eachProgram } from "../support/each_program.ts";

const FLAGS = ["--ram-mib-max", "512", "--allow-nic-tag", "external"];
const MACHINE: JsonObject = { brand: "kvm", ram: 1024 };
const SETTING = "must be an integer from 1 to 512 (setting policy.ram_mib_max), found 1024";

const BODY = `async function make(job, cb) {
  const uuid = job.uuid;
  const refused = await vmadm.create({ uuid, brand: 'kvm', ram: 1024 }).catch((error) => error.message);
  await vmadm.create({ uuid, brand: 'kvm', ram: 512 });
  await vmadm.get(uuid);
  cb(null, refused);
}`;

eachProgram(
  "a policy refuses the same to requests and tasks, and jobs say what their tasks called",
  (program) =>
    withFolder(async (folder) => {
      const flags = ["--host", "simulated", ...FLAGS];
      const agent = await startAgentProcess(program, `${folder}/state`, flags);
      try {
        const request = { machine: MACHINE, media: { path: "a.iso" } };
        const answer = await agent.post("/agent/v1/machines", request);
        assertEquals([answer.status, answer.body.code], [409, "InvalidArgument"]);
        assertStringIncludes(String(answer.body.message), `machine.ram ${SETTING}`);
        const workflow = { name: "make", chain: [{ name: "make", body: BODY }] };
        const { uuid: workflow_uuid } = (await agent.post("/workflows", workflow)).body;
        const posted = await agent.post("/jobs", { workflow: workflow_uuid ?? "" });
        const uuid = String(posted.body.uuid);
        const job = await agent.job(uuid, "success");
        const [made] = job.chain_results as JsonObject[];
        assertEquals(made?.result, `Cannot accept the machine: payload.ram ${SETTING}`);
        const items = (await agent.get(`/jobs/${uuid}/info`)).body.items as JsonObject[];
        assertEquals(items.map(summary), [
          ["vmadm.create", "invalid_argument"],
          ["vmadm.create", "ok"],
          { "vmadm.create": 2, "vmadm.get": 1 },
        ]);
        const tail = await runProgram(program, ["job", "tail", uuid, "--url", agent.url]);
        assertStringIncludes(tail.stdout, "make: vmadm.create uuid=" + uuid);
        assertStringIncludes(tail.stdout, "make: calls: vmadm.create 2 (1 failed) ");
      } finally {
        assertEquals(await agent.stop(), 0);
      }
      const shown = await runProgram(program, ["config", "show", "--json", ...FLAGS]);
      const settings = JSON.parse(shown.stdout);
      assertEquals(settings["policy.ram_mib_max"], 512);
      assertEquals(settings["policy.allow_nic_tag"], ["external"]);
    }),
);

eachProgram(
  "a policy that is narrowed while the agent runs holds from the next request on",
  (program) =>
    withFolder(async (folder) => {
      const file = `${folder}/zonewright.toml`;
      await Deno.writeTextFile(file, "[policy]\nram_mib_max = 2048\n");
      const flags = ["--host", "simulated", "--config", file];
      const agent = await startAgentProcess(program, `${folder}/state`, flags);
      try {
        const refused = async (ram: number) => {
          const machine = { brand: "kvm", ram, vcpus: 99 };
          const answer = await agent.post("/agent/v1/machines", {
            machine,
            media: { path: "a.iso" },
          });
          return (answer.body.errors as JsonObject[]).map(({ field }) => field);
        };
        const published = async () => {
          const { components } = (await agent.get("/openapi.json")).body;
          const { KvmMachine } = (components as JsonObject).schemas as Record<string, JsonObject>;
          const { vcpus } = KvmMachine?.properties as Record<string, JsonObject>;
          // A number, or its digits as a text.
          return (vcpus?.anyOf as JsonObject[])[0]?.maximum;
        };
        assertEquals(await refused(1024), ["machine.vcpus"]);
        assertEquals(await published(), 64);
        await Deno.writeTextFile(file, "[policy]\nram_mib_max = 512\nvcpus_max = 100\n");
        agent.signal("SIGHUP");
        await until("the new policy", () => agent.log().includes("configuration read again"));
        assertEquals(await refused(1024), ["machine.ram"]);
        assertEquals(await published(), 100);
        const workflow = { name: "make", chain: [{ name: "make", body: BODY }] };
        const { uuid } = (await agent.post("/workflows", workflow)).body;
        const job = (await agent.post("/jobs", { workflow: uuid ?? "" })).body;
        const [made] = (await agent.job(String(job.uuid), "success")).chain_results as JsonObject[];
        assertEquals(made?.result, `Cannot accept the machine: payload.ram ${SETTING}`);
      } finally {
        assertEquals(await agent.stop(), 0);
      }
    }),
);

function summary({ zonewright_call: call, zonewright_calls: calls }: JsonObject): unknown {
  if (isJsonObject(call)) return [call.name, call.ended];
  const counts = Object.entries(isJsonObject(calls) ? calls : {});
  return Object.fromEntries(
    counts.map(([name, reported]) => [name, isJsonObject(reported) ? reported.count : undefined]),
  );
}
