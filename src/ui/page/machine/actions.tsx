// Actions on a machine. Each is a call that any other caller can make, and its dialog shows the call.

import { useSignal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { type Call, cliOf, curlOf, mayChange, send } from "../../client/client.ts";
import { Button, Dialog } from "../../part/controls.tsx";
import { announce } from "../../browser.ts";
import type { MachineView } from "./machine_view.ts";

type Action = "boot" | "stop" | "reboot" | "eject" | "delete";

/** An action as its button and its dialog show it. */
interface ActionWords {
  readonly title: string;
  /** What happens to the machine. */
  readonly note: string;
  readonly danger: boolean;
  /** Whether the agent allows it in the machine's state. */
  readonly fits: (machine: MachineView) => boolean;
}

const ACTIONS: Readonly<Record<Action, ActionWords>> = {
  boot: {
    title: "Boot",
    note: "It starts from its disks.",
    danger: false,
    fits: ({ state }) => state === "stopped",
  },
  stop: {
    title: "Stop",
    note: "The guest is asked to power off, and forced after 3 minutes.",
    danger: true,
    fits: ({ state }) => state === "running" || state === "stopping",
  },
  reboot: {
    title: "Reboot",
    note: "The guest is asked to power off, and forced after 3 minutes; then it starts again.",
    danger: true,
    fits: ({ state }) => state === "running",
  },
  eject: {
    title: "Eject",
    note: "Its medium is detached, and the copy in its zone is removed.",
    danger: false,
    fits: ({ state, medium }) => state === "stopped" && medium !== null,
  },
  delete: {
    title: "Delete",
    note:
      "It is stopped by force, and removed with its disks, its zone and its media. This cannot be undone.",
    danger: true,
    fits: ({ state }) => state !== "absent",
  },
};
const NAMES = Object.keys(ACTIONS) as readonly Action[];

/** What a machine is called: its name, else its uuid. */
export function nameOf({ alias, uuid }: Pick<MachineView, "alias" | "uuid">): string {
  return alias ?? uuid;
}

/** The actions that the machine's state allows; none for a read-only caller. */
export function Actions(
  { machine, busy }: { machine: MachineView; busy: boolean },
): JSX.Element | null {
  const open = useSignal<Action | undefined>(undefined);
  if (!mayChange()) return null;
  const fitting = NAMES.filter((name) => ACTIONS[name].fits(machine));
  return (
    <div class="actions">
      {fitting.map((name) => (
        <Button
          key={name}
          kind={name === "boot" ? "primary" : name === "delete" ? "danger" : "plain"}
          disabled={busy}
          onClick={() => open.value = name}
        >
          {ACTIONS[name].title}…
        </Button>
      ))}
      {open.value !== undefined && (
        <ActionDialog
          machine={machine}
          action={open.value}
          onClose={() => open.value = undefined}
        />
      )}
    </div>
  );
}

interface ActionDialogProps {
  readonly machine: MachineView;
  readonly action: Action;
  readonly onClose: () => void;
}

function ActionDialog({ machine, action, onClose }: ActionDialogProps): JSX.Element {
  const chosen = useSignal(false);
  const { title, note, danger } = ACTIONS[action];
  const choice = choiceOf(action, machine);
  const { body, words } = chosen.value && choice !== undefined ? choice : { body: {}, words: [] };
  const call: Call = action === "delete"
    ? { method: "DELETE", path: `/agent/v1/machines/${machine.uuid}` }
    : { method: "POST", path: `/agent/v1/machines/${machine.uuid}/${action}`, body };
  const yes = action === "delete" ? ["--yes"] : [];
  return (
    <Dialog
      title={`${title} ${nameOf(machine)}?`}
      verb={`${title} ${nameOf(machine)}`}
      danger={danger}
      curl={curlOf(call)}
      cli={cliOf(["machine", action, machine.uuid, ...words, ...yes])}
      onConfirm={async () => {
        await send(call);
        announce(`${title}: job created`);
      }}
      onClose={onClose}
    >
      <p class="muted">{note}</p>
      {choice !== undefined && <Choice chosen={chosen} note={choice.note}>{choice.title}</Choice>}
    </Dialog>
  );
}

/** The one option of an action, as a call and as words of the command. */
interface ActionChoice {
  readonly title: string;
  readonly note: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly words: readonly string[];
}

function choiceOf(action: Action, { brand, medium }: MachineView): ActionChoice | undefined {
  if (action === "stop" || action === "reboot") {
    const note = "Like a power cut: anything the guest has not written is lost.";
    return { title: "Immediately, by force", note, body: { force: true }, words: ["--force"] };
  }
  // A bhyve machine boots the media that are attached to it.
  if (action !== "boot" || brand !== "kvm" || medium === null) return undefined;
  return {
    title: `From ${medium} first`,
    note: "Attached for this boot; later resets boot from the disk.",
    body: { cdrom: medium, order: "cd", once: "d" },
    words: ["--cdrom", medium, "--order", "cd", "--once", "d"],
  };
}

interface ChoiceProps {
  readonly chosen: { value: boolean };
  readonly note: string;
  readonly children: ComponentChildren;
}

function Choice({ chosen, note, children }: ChoiceProps): JSX.Element {
  return (
    <div>
      <label class="check">
        <input
          type="checkbox"
          checked={chosen.value}
          onChange={(event) => chosen.value = event.currentTarget.checked}
        />
        <span>{children}</span>
      </label>
      <p class="muted">{note}</p>
    </div>
  );
}
