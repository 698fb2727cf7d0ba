// How jobs ended, hour by hour, as a row of small bars.

import type { JSX } from "preact";
import type { Schemas } from "../../client/schema.ts";

type Hours = Schemas["HourlyStats"]["hours"];

/** The outcomes that are drawn, from the bottom up. */
const OUTCOMES = ["succeeded", "canceled", "failed"] as const;
const BAR_WIDTH = 10;
const BAR_GAP = 3;
const HEIGHT = 56;
/** The least height of what is not nothing, so that it is seen. */
const HEIGHT_MIN = 3;

/** The bars; a reader of the screen gets the sums. */
export function Sparkline({ hours }: { hours: Hours }): JSX.Element {
  const totals = hours.map((hour) => OUTCOMES.reduce((sum, outcome) => sum + hour[outcome], 0));
  const most = Math.max(1, ...totals);
  const width = hours.length * (BAR_WIDTH + BAR_GAP) - BAR_GAP;
  return (
    <figure class="spark">
      <svg
        viewBox={`0 0 ${width} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={sumText(hours)}
      >
        {hours.map((hour, at) => (
          <HourBar key={hour.hour} hour={hour} left={at * (BAR_WIDTH + BAR_GAP)} most={most} />
        ))}
      </svg>
      <figcaption>
        <span>{hours.length - 1} hours ago</span>
        <span>{sumText(hours)}</span>
        <span>now</span>
      </figcaption>
    </figure>
  );
}

interface HourBarProps {
  readonly hour: Hours[number];
  readonly left: number;
  /** Jobs of the tallest bar. */
  readonly most: number;
}

function HourBar({ hour, left, most }: HourBarProps): JSX.Element {
  let top = HEIGHT;
  const words = OUTCOMES.filter((outcome) => hour[outcome] > 0)
    .map((outcome) => `${hour[outcome].toLocaleString("en")} ${outcome}`);
  const time = new Date(hour.hour).toLocaleTimeString("sv", { hour: "2-digit", minute: "2-digit" });
  return (
    <g>
      <title>{`${time}: ${words.length === 0 ? "none" : words.join(", ")}`}</title>
      <rect class="spark-none" x={left} y={0} width={BAR_WIDTH} height={HEIGHT} />
      {OUTCOMES.map((outcome) => {
        if (hour[outcome] === 0) return null;
        const height = Math.max(HEIGHT_MIN, HEIGHT * hour[outcome] / most);
        top = Math.max(0, top - height);
        return (
          <rect
            key={outcome}
            class={`spark-${outcome}`}
            x={left}
            y={top}
            width={BAR_WIDTH}
            height={height}
          />
        );
      })}
    </g>
  );
}

function sumText(hours: Hours): string {
  const words = OUTCOMES.toReversed().flatMap((outcome) => {
    const sum = hours.reduce((total, hour) => total + hour[outcome], 0);
    return sum === 0 ? [] : [`${sum.toLocaleString("en")} ${outcome}`];
  });
  return words.length === 0 ? "no job ended" : words.join(", ");
}
