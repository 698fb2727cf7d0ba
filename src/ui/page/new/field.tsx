// A field of the form: its label, a hint, and the agent's reason for refusing it, which screen readers read with it.

import { useSignal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { type Draft, fieldText, type Path, pathText, valueAt } from "./draft.ts";
import type { Bound } from "./bounds.ts";

/** What every field of the form needs. */
export interface FormContext {
  readonly draft: Draft;
  /** What the agent refused, by the path of the field. */
  readonly errors: ReadonlyMap<string, string>;
}

interface FieldProps {
  readonly form: FormContext;
  readonly path: Path;
  readonly label: string;
  /** Which one, in a list of fields: `Size of disk 2`. */
  readonly of?: string;
  readonly hint?: string;
}

/** The id of the element of a field. @param field as the agent names it */
export function idOf(field: string): string {
  return `field-${field}`;
}

/** Why the agent refused a field, or one of its list. */
function errorOf({ errors }: FormContext, field: string): string | undefined {
  const [, within] = [...errors].find(([name]) => name.startsWith(`${field}[`)) ?? [];
  return errors.get(field) ?? within;
}

/** The attributes that name and describe an input for screen readers. */
function namesOf({ form, path, hint, label, of }: FieldProps) {
  const field = pathText(path);
  const error = errorOf(form, field);
  const described = [
    hint === undefined ? "" : `${idOf(field)}-hint`,
    error === undefined ? "" : `${idOf(field)}-error`,
  ].filter((id) => id !== "").join(" ");
  return {
    id: idOf(field),
    "aria-label": of === undefined ? undefined : `${label} of ${of}`,
    "aria-invalid": error !== undefined,
    "aria-describedby": described === "" ? undefined : described,
  };
}

function Labelled({ props, children }: { props: FieldProps; children: ComponentChildren }) {
  const { form, path, label, hint } = props;
  const field = pathText(path);
  const error = errorOf(form, field);
  return (
    <div class="field">
      <label for={idOf(field)}>{label}</label>
      {children}
      {hint !== undefined && <p id={`${idOf(field)}-hint`} class="hint">{hint}</p>}
      {error !== undefined && (
        <p id={`${idOf(field)}-error`} class="field-error">{error.replace(`${field} `, "")}</p>
      )}
    </div>
  );
}

/** A text; an empty one is left out. */
export function TextField(props: FieldProps & { placeholder?: string }): JSX.Element {
  const { form: { draft }, path, placeholder } = props;
  return (
    <Labelled props={props}>
      <input
        {...namesOf(props)}
        type="text"
        autocomplete="off"
        spellcheck={false}
        placeholder={placeholder}
        value={fieldText(valueAt(draft.request.value, path))}
        onInput={({ currentTarget: { value } }) =>
          draft.set(path, value === "" ? undefined : value)}
      />
    </Labelled>
  );
}

/** Several texts with commas between them. */
export function ListField(props: FieldProps & { placeholder?: string }): JSX.Element {
  const { form: { draft }, path, placeholder } = props;
  const typed = useSignal("");
  const value = valueAt(draft.request.value, path);
  const list = Array.isArray(value) ? value.map(fieldText) : [];
  // Keeps the typed text while it means the same: a comma at the end adds no item.
  const same = textsOf(typed.value).join() === list.join();
  return (
    <Labelled props={props}>
      <input
        {...namesOf(props)}
        type="text"
        autocomplete="off"
        spellcheck={false}
        placeholder={placeholder}
        value={same ? typed.value : list.join(", ")}
        onInput={({ currentTarget }) => {
          typed.value = currentTarget.value;
          const texts = textsOf(typed.value);
          draft.set(path, texts.length === 0 ? undefined : texts);
        }}
      />
    </Labelled>
  );
}

function textsOf(typed: string): readonly string[] {
  return typed.split(",").map((text) => text.trim()).filter((text) => text !== "");
}

/** A whole number within its bounds. */
export function NumberField(props: FieldProps & { bound: Bound; step?: number }): JSX.Element {
  const { form: { draft }, path, bound: { min, max }, step } = props;
  return (
    <Labelled props={props}>
      <input
        {...namesOf(props)}
        type="number"
        inputMode="numeric"
        min={min}
        max={max}
        // Steps count from the minimum, but values between them are valid too.
        step={step === undefined ? 1 : "any"}
        value={fieldText(valueAt(draft.request.value, path))}
        onInput={({ currentTarget: { value } }) =>
          draft.set(path, value === "" ? undefined : Number(value))}
      />
    </Labelled>
  );
}

/** A choice among words; an unknown value is shown as it is. */
export function ChoiceField(
  props: FieldProps & {
    readonly words: readonly string[];
    /** Texts to show instead of certain words. */
    readonly shown?: ReadonlyMap<string, string>;
    /** The text for no value; without it, a value is required. */
    readonly none?: string;
    readonly onChange?: (value: string) => void;
  },
): JSX.Element {
  const { form: { draft }, path, words, shown, none, onChange } = props;
  const value = fieldText(valueAt(draft.request.value, path));
  const known = value === "" || words.includes(value) ? words : [...words, value];
  return (
    <Labelled props={props}>
      <select
        {...namesOf(props)}
        value={value}
        onChange={({ currentTarget }) => {
          const chosen = currentTarget.value;
          if (onChange !== undefined) onChange(chosen);
          else draft.set(path, chosen === "" ? undefined : chosen);
        }}
      >
        {(none !== undefined || value === "") && <option value="">{none ?? "Choose"}</option>}
        {known.map((word) => <option key={word} value={word}>{shown?.get(word) ?? word}</option>)}
      </select>
    </Labelled>
  );
}
