// The disks and the nics of a request.

import type { JSX } from "preact";
import { Button } from "../../part/controls.tsx";
import { mibText } from "../../part/device.tsx";
import { type Bounds, firstDisk, firstNic } from "./bounds.ts";
import { fieldText, type JsonObject, objectsAt, type Path, valueAt } from "./draft.ts";
import {
  ChoiceField,
  type FormContext,
  idOf,
  ListField,
  NumberField,
  TextField,
} from "./field.tsx";

interface DevicesProps {
  readonly form: FormContext;
  readonly bounds: Bounds;
  readonly brand: string;
}

const DISKS: Path = ["machine", "disks"];
const NICS: Path = ["machine", "nics"];

/** Sizes, models, and which one boots. */
export function DiskFields({ form, bounds, brand }: DevicesProps): JSX.Element {
  const { draft } = form;
  const disks = objectsAt(draft.request.value, DISKS);
  return (
    <fieldset id={idOf("machine.disks")} tabIndex={-1}>
      <legend>Disks</legend>
      <ListError form={form} field="machine.disks" />
      {disks.map(({ size, boot }, at) => {
        const name = `disk ${at}`;
        return (
          <div key={at} class="device-row disk-row" role="group" aria-label={name}>
            <NumberField
              form={form}
              path={[...DISKS, at, "size"]}
              label="Size, MiB"
              of={name}
              bound={bounds.of(brand, "disks.size")}
              hint={hintOf(size)}
            />
            <ChoiceField
              form={form}
              path={[...DISKS, at, "model"]}
              label="Model"
              of={name}
              words={bounds.of(brand, "disks.model").words ?? []}
            />
            <OneOf
              form={form}
              list={DISKS}
              at={at}
              field="boot"
              chosen={boot === true}
              label="Boots"
              of={name}
            />
            <RemoveButton form={form} list={DISKS} at={at} name={name} />
          </div>
        );
      })}
      <AddButton
        form={form}
        list={DISKS}
        what="disk"
        count={disks.length}
        max={bounds.disksMax}
        first={() => ({
          ...firstDisk(bounds, brand),
          ...(disks.length === 0 ? { boot: true } : {}),
        })}
      />
    </fieldset>
  );
}

/** How a nic gets its address: by the host's DHCP, as given, or not at all. */
function addressKind(nic: JsonObject): "dhcp" | "given" | "none" {
  if (nic.ip === "dhcp") return "dhcp";
  return nic.ip === undefined && nic.ips === undefined ? "none" : "given";
}

/** The networks, addresses and models of the nics, and which one is primary. */
export function NicFields({ form, bounds, brand }: DevicesProps): JSX.Element {
  const { draft } = form;
  const nics = objectsAt(draft.request.value, NICS);
  return (
    <fieldset id={idOf("machine.nics")} tabIndex={-1}>
      <legend>Nics</legend>
      <ListError form={form} field="machine.nics" />
      {bounds.networks === undefined && (
        <p class="hint">The host did not name its networks: type the nic_tag.</p>
      )}
      <ListField
        form={form}
        path={["machine", "resolvers"]}
        label="Resolvers"
        placeholder="192.0.2.53, 198.51.100.53"
      />
      {nics.map((nic, at) => (
        <NicField key={at} form={form} bounds={bounds} brand={brand} nic={nic} at={at} />
      ))}
      <AddButton
        form={form}
        list={NICS}
        what="nic"
        count={nics.length}
        max={bounds.nicsMax}
        first={() => ({
          ...firstNic(bounds, brand),
          ...(nics.length === 0 ? { primary: true } : {}),
        })}
      />
    </fieldset>
  );
}

function NicField(
  { form, bounds, brand, nic, at }: DevicesProps & { nic: JsonObject; at: number },
): JSX.Element {
  const name = `net${at}`;
  const path = (field: string): Path => [...NICS, at, field];
  const kind = addressKind(nic);
  return (
    <div class="device-row nic-row" role="group" aria-label={name}>
      {bounds.networks === undefined
        ? <TextField form={form} path={path("nic_tag")} label="Network" of={name} />
        : (
          <ChoiceField
            form={form}
            path={path("nic_tag")}
            label="Network"
            of={name}
            words={bounds.networks}
          />
        )}
      <ChoiceField
        form={form}
        path={path("model")}
        label="Model"
        of={name}
        words={bounds.of(brand, "nics.model").words ?? []}
      />
      <AddressKind form={form} nic={nic} at={at} kind={kind} />
      {kind === "given" && <GivenAddress form={form} at={at} />}
      <NumberField
        form={form}
        path={path("vlan_id")}
        label="VLAN"
        of={name}
        bound={bounds.of(brand, "nics.vlan_id")}
      />
      <OneOf
        form={form}
        list={NICS}
        at={at}
        field="primary"
        chosen={[true, 1, "1"].some((yes) => yes === nic.primary)}
        label="Primary"
        of={name}
      />
      <RemoveButton form={form} list={NICS} at={at} name={name} />
    </div>
  );
}

function GivenAddress({ form, at }: { form: FormContext; at: number }): JSX.Element {
  const field = (name: string, label: string, placeholder: string) => (
    <TextField
      form={form}
      path={[...NICS, at, name]}
      label={label}
      of={`net${at}`}
      placeholder={placeholder}
    />
  );
  return (
    <>
      {field("ip", "Address", "192.0.2.7")}
      {field("netmask", "Netmask", "255.255.255.0")}
      {field("gateway", "Gateway", "none")}
    </>
  );
}

const ADDRESS_KINDS = { dhcp: "by DHCP", given: "fixed", none: "none" } as const;

function AddressKind(
  { form: { draft }, nic, at, kind }: {
    form: FormContext;
    nic: JsonObject;
    at: number;
    kind: keyof typeof ADDRESS_KINDS;
  },
): JSX.Element {
  const id = idOf(`machine.nics[${at}].ips`);
  const choose = (chosen: string) => {
    const { ip: _, netmask: _n, gateway: _g, ips: _i, ...rest } = nic;
    const fixed = { ip: "", netmask: "255.255.255.0" };
    const address = chosen === "dhcp" ? { ip: "dhcp" } : chosen === "given" ? fixed : {};
    draft.set([...NICS, at], { ...rest, ...address });
  };
  return (
    <div class="field">
      <label for={id}>IP address</label>
      <select
        id={id}
        aria-label={`IP address of net${at}`}
        value={kind}
        onChange={({ currentTarget }) => choose(currentTarget.value)}
      >
        {Object.entries(ADDRESS_KINDS).map(([key, text]) => (
          <option key={key} value={key}>{text}</option>
        ))}
      </select>
    </div>
  );
}

interface OneOfProps {
  readonly form: FormContext;
  readonly list: Path;
  readonly at: number;
  readonly field: string;
  readonly chosen: boolean;
  readonly label: string;
  readonly of: string;
}

/** A property that exactly one item of a list has, as a radio button. */
function OneOf({ form: { draft }, list, at, field, chosen, label, of }: OneOfProps): JSX.Element {
  const choose = () => {
    const devices = objectsAt(draft.request.value, list);
    draft.set(
      list,
      devices.map(({ [field]: _, ...device }, place) =>
        place === at ? { ...device, [field]: true } : device
      ),
    );
  };
  return (
    <label class="check one-of">
      <input
        type="radio"
        name={field}
        aria-label={`${label}: ${of}`}
        checked={chosen}
        onChange={choose}
      />
      <span>{label}</span>
    </label>
  );
}

function RemoveButton(
  { form: { draft }, list, at, name }: { form: FormContext; list: Path; at: number; name: string },
): JSX.Element {
  return (
    <Button
      kind="quiet"
      label={`Remove ${name}`}
      onClick={() => draft.set([...list, at], undefined)}
    >
      Remove
    </Button>
  );
}

interface AddButtonProps {
  readonly form: FormContext;
  readonly list: Path;
  readonly what: string;
  readonly count: number;
  readonly max: number;
  readonly first: () => JsonObject;
}

function AddButton(
  { form: { draft }, list, what, count, max, first }: AddButtonProps,
): JSX.Element {
  return (
    <div class="add-row">
      <Button
        disabled={count >= max}
        onClick={() => draft.set(list, [...objectsAt(draft.request.value, list), first()])}
      >
        Add a {what}
      </Button>
      {count >= max && <span class="hint">The policy allows {max}.</span>}
    </div>
  );
}

function ListError({ form, field }: { form: FormContext; field: string }): JSX.Element | null {
  const error = form.errors.get(field);
  return error === undefined ? null : <p class="field-error">{error.replace(`${field} `, "")}</p>;
}

/** MiB in a larger unit, if that reads better. */
export function hintOf(value: unknown): string {
  const mib = Number(fieldText(value));
  return Number.isFinite(mib) && mib >= 1 ? mibText(mib) : "a whole number";
}

/** The brand of a request. */
export function brandOf(request: JsonObject): string {
  return fieldText(valueAt(request, ["machine", "brand"]));
}
