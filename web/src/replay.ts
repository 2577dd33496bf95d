// The tab of the replay: what the operation makes of A's own inputs in fp64, and how far A may be from it.
import type { Point, Stats } from "./data";
import { h, number } from "./dom";

export const CULPRIT = 4; // times the bound; PL_Q_CULPRIT

/** A multiple of the bound; beyond a million the figure says nothing. */
export const times = (q: number): string =>
  q > 1e6 ? "far beyond its bound (> 1e6 times)" : `${number(q)} times its bound`;

/** Whether the session holds its replay. */
export const isReplayed = (p: Point): boolean => p.verdict === "culprit";

export function replayWords(p: Point): (HTMLElement | null)[] {
  return [
    h(
      "p",
      { id: "replay-words" },
      "plumb computed this operation again in fp64, on the inputs that A itself had. Errors of earlier operations are in both, so what differs here is this operation’s own error. No counterpart in B is needed.",
    ),
    p.q === null
      ? h("p", { class: "quiet" }, "It was not replayed, so there is no bound for its local error.")
      : h(
          "p",
          { id: "replay-q" },
          h("strong", {}, `The local error is ${times(p.q)}`),
          ` (q = ${number(p.q)}). The bound is the largest error that correct rounding can make; more than ${CULPRIT} times as much is a culprit.`,
        ),
    isReplayed(p)
      ? null
      : h(
          "p",
          { class: "quiet" },
          p.local === null ? "" : `Its local error is ${number(p.local)} (rms). `,
          "The replay’s values are kept for culprits only.",
        ),
  ];
}

/** The bounds, from the tensors. */
export function replayBounds(s: Stats): HTMLElement | null {
  const r = s.replay;
  if (!r) return null;
  const width = r.least === r.most ? number(r.most) : `${number(r.least)} to ${number(r.most)}`;
  return h(
    "p",
    { id: "replay-bounds" },
    `Bound of an element: ${width}. Beyond ${CULPRIT} times its bound: ${r.beyond} of ${s.n} elements.`,
  );
}
