// A long list of rows of equal height. Only rows near the window are drawn, so that a hundred thousand are as
// fast as ten.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

/** The key names the cells and their class. */
interface Column {
  readonly key: string;
  readonly title: ComponentChildren;
}

interface RowsProps<T> {
  /** What the rows are, for a screen reader. */
  readonly label: string;
  readonly columns: readonly Column[];
  readonly rows: readonly T[];
  readonly keyOf: (row: T) => string;
  /** The cells of a row by the keys of the columns. */
  readonly cellsOf: (row: T) => Readonly<Record<string, ComponentChildren>>;
  /** Called when the end of the rows comes near. */
  readonly onEnd: () => void;
  /** Class of the table: its columns are a grid of that class. */
  readonly name: string;
}

/** Rows that are drawn beyond the window on either side. */
const MARGIN_ROWS = 15;
/** Rows before the end at which more are asked for. */
const END_ROWS = 40;
/** Height of a row in pixels, until one was measured. */
const ROW_PX = 40;

/** The rows, as a table for a screen reader. */
export function Rows<T>(props: RowsProps<T>): JSX.Element {
  const { label, columns, rows, keyOf, cellsOf, onEnd, name } = props;
  const body = useRef<HTMLDivElement>(null);
  const { first, count, rowPx } = useWindow(body, rows.length);
  useEffect(() => {
    if (first + count + END_ROWS >= rows.length) onEnd();
  }, [first, count, rows.length]);
  const shown = rows.slice(first, first + count);
  const keys = columns.map(({ key }) => key).join(" ");
  return (
    <div role="table" class={`rows ${name}`} aria-label={label} aria-rowcount={rows.length + 1}>
      <div role="row" class="row row-head" aria-rowindex={1}>
        {columns.map(({ key, title }) => (
          <div role="columnheader" key={key} class={`cell cell-${key}`}>{title}</div>
        ))}
      </div>
      <div
        role="rowgroup"
        class="rows-body"
        ref={body}
        style={{ height: `${rows.length * rowPx}px` }}
      >
        {shown.map((row, at) => (
          <Row
            key={keyOf(row)}
            row={row}
            at={first + at}
            rowPx={rowPx}
            keys={keys}
            cellsOf={cellsOf}
          />
        ))}
      </div>
    </div>
  );
}

interface RowProps<T> extends Pick<RowsProps<T>, "cellsOf"> {
  readonly row: T;
  /** Its place in the list. */
  readonly at: number;
  readonly rowPx: number;
  /** Keys of the columns, separated by spaces. */
  readonly keys: string;
}

/** A row. Its cells are drawn again when its object changes, not when the list scrolls. */
function Row<T>({ row, at, rowPx, keys, cellsOf }: RowProps<T>): JSX.Element {
  const cells = useMemo(() => {
    const content = cellsOf(row);
    return keys.split(" ").map((key) => (
      <div role="cell" key={key} class={`cell cell-${key}`}>{content[key]}</div>
    ));
  }, [row, keys]);
  return (
    <div
      role="row"
      class="row"
      aria-rowindex={at + 2}
      style={{ transform: `translateY(${at * rowPx}px)` }}
    >
      {cells}
    </div>
  );
}

/** Which rows are near the window. */
function useWindow(body: { readonly current: HTMLElement | null }, total: number) {
  // The first frame draws what is visible; the margins follow.
  const [range, setRange] = useState(() => ({
    first: 0,
    count: Math.ceil(innerHeight / ROW_PX),
    rowPx: ROW_PX,
  }));
  useLayoutEffect(() => {
    const look = () => {
      const { current } = body;
      if (current === null) return;
      const top = current.getBoundingClientRect().top;
      const rowPx = current.firstElementChild?.getBoundingClientRect().height || ROW_PX;
      const first = Math.max(0, Math.floor(-top / rowPx) - MARGIN_ROWS);
      const count = Math.ceil(innerHeight / rowPx) + 2 * MARGIN_ROWS;
      setRange((old) =>
        old.first === first && old.count === count && old.rowPx === rowPx
          ? old
          : { first, count, rowPx }
      );
    };
    const frame = requestAnimationFrame(look);
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      cancelAnimationFrame(frame);
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
    };
  }, [total === 0]);
  return range;
}
