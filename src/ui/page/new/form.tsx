// The form of a request: what most machines need. The rest is in the JSON beside it.

import type { JSX } from "preact";
import { useHostChoices } from "../../part/hosts.tsx";
import type { Bounds } from "./bounds.ts";
import { DiskFields, hintOf, NicFields } from "./devices.tsx";
import { type JsonObject, valueAt } from "./draft.ts";
import { ChoiceField, type FormContext, NumberField, TextField } from "./field.tsx";
import { MediumFields } from "./medium.tsx";
import { objectsAt } from "./draft.ts";

interface RequestFormProps {
  readonly form: FormContext;
  readonly bounds: Bounds;
  readonly brand: string;
}

/** All parts of the form. */
export function RequestForm({ form, bounds, brand }: RequestFormProps): JSX.Element {
  return (
    <>
      <MachineFields form={form} bounds={bounds} brand={brand} />
      <MediumFields form={form} />
      <DiskFields form={form} bounds={bounds} brand={brand} />
      <NicFields form={form} bounds={bounds} brand={brand} />
    </>
  );
}

const HOST = ["server_uuid"];

/** Properties that only one brand has, with their labels. */
const OWN: Readonly<Record<string, { readonly label: string; readonly none: string }>> = {
  cpu_type: { label: "CPU type", none: "qemu64" },
  bootrom: { label: "Boot ROM", none: "bios" },
};

function MachineFields({ form, bounds, brand }: RequestFormProps): JSX.Element {
  const { draft } = form;
  const ram = valueAt(draft.request.value, ["machine", "ram"]);
  const vcpus = bounds.of(brand, "vcpus");
  return (
    <fieldset>
      <legend>Machine</legend>
      <div class="field-grid">
        <TextField form={form} path={["machine", "alias"]} label="Name" placeholder="web1" />
        <HostField form={form} />
        <ChoiceField
          form={form}
          path={["machine", "brand"]}
          label="Brand"
          words={bounds.brands}
          onChange={(next) => draft.set(["machine"], ofBrand(draft.request.value, bounds, next))}
        />
        <NumberField
          form={form}
          path={["machine", "vcpus"]}
          label="Virtual CPUs"
          bound={vcpus}
          {...(vcpus.max === undefined ? {} : { hint: `at most ${vcpus.max}` })}
        />
        <NumberField
          form={form}
          path={["machine", "ram"]}
          label="Memory, MiB"
          bound={bounds.of(brand, "ram")}
          step={1}
          hint={hintOf(ram)}
        />
        {Object.entries(OWN).map(([name, { label, none }]) => {
          const { words } = bounds.of(brand, name);
          return words !== undefined && (
            <ChoiceField
              key={name}
              form={form}
              path={["machine", name]}
              label={label}
              words={words}
              none={`default (${none})`}
            />
          );
        })}
        <NumberField
          form={form}
          path={["machine", "quota"]}
          label="Zone quota, GiB"
          bound={bounds.of(brand, "quota")}
          hint="without the disks; empty for the default"
        />
      </div>
    </fieldset>
  );
}

/** The host that will create the machine; nothing if there is only one. */
function HostField({ form }: { form: FormContext }): JSX.Element | null {
  const choices = useHostChoices();
  const chosen = valueAt(form.draft.request.value, HOST);
  if (choices.length === 0 && chosen === undefined) return null;
  return (
    <ChoiceField
      form={form}
      path={HOST}
      label="Host"
      words={choices.map(({ key }) => key)}
      shown={new Map(choices.map(({ key, label }) => [key, label]))}
      none="this agent's host"
      {...(chosen === undefined
        ? {}
        : { hint: "media, networks and bounds here are of this agent" })}
    />
  );
}

/** The description for another brand: models and properties that it lacks are replaced or removed. */
function ofBrand(request: JsonObject, bounds: Bounds, brand: string): JsonObject {
  const [machine = {}] = objectsAt([valueAt(request, ["machine"])], []);
  const kept = Object.fromEntries(
    Object.entries(machine).filter(([name]) =>
      !(name in OWN) || bounds.of(brand, name).words !== undefined
    ),
  );
  const fitted = (list: "disks" | "nics") => {
    const words = bounds.of(brand, `${list}.model`).words ?? [];
    return objectsAt(machine, [list]).map((device) =>
      words.includes(String(device.model)) ? device : { ...device, model: words[0] ?? device.model }
    );
  };
  return {
    ...kept,
    brand,
    ...("disks" in machine ? { disks: fitted("disks") } : {}),
    ...("nics" in machine ? { nics: fitted("nics") } : {}),
  };
}
