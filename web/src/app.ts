// What the panes share: the data, the state, the current list and selection, and how a value is signed.
import type { Graph, GraphNode, Point, Session, Source } from "./data";
import { score } from "./dom";
import { rowsOf } from "./model";
import { list, metricIndex, signOf, type Listing } from "./rows";
import type { State, Store } from "./state";

export class App {
  listing: Listing = { rows: [], shown: [] };
  readonly byValue = new Map<string, Point>();
  readonly others = new Map<string, Point>(); // of the graph, without a sync point
  graph: Graph | null = null;
  reference: Graph | null = null; // of B, when that is another model
  constructor(
    readonly source: Source,
    readonly session: Session,
    readonly store: Store,
  ) {
    for (const p of session.points) if (!this.byValue.has(p.value)) this.byValue.set(p.value, p);
    this.relist();
  }
  /** The graph has come: what it has besides the sync points can be found and selected. */
  takeGraph(graph: Graph | null): void {
    this.graph = graph;
    this.others.clear();
    if (graph && this.session.kind === "session")
      for (const p of rowsOf(graph, this.byValue)) this.others.set(p.value, this.named(p));
    this.relist();
  }
  /** What is blamed although nothing was recorded of it: the operation at which A crashed, hung or did not compile. */
  private named(p: Point): Point {
    const blame = this.session.blame.find((b) => b.value === p.value);
    return blame ? { ...p, blame, verdict: "culprit", reason: this.session.a.failure } : p;
  }
  /** A blamed value, recorded or not. */
  blamed(value: string): Point | null {
    const other = this.others.get(value);
    return this.byValue.get(value) ?? (other?.blame ? other : null);
  }
  get state(): State {
    return this.store.state;
  }
  get metric(): number {
    return metricIndex(this.session, this.state.metric);
  }
  /** The selected sync point. */
  get point(): Point | null {
    return this.byValue.get(this.state.value) ?? null;
  }
  /** The selection, also when it is only in the graph. */
  get selected(): Point | null {
    return this.point ?? this.others.get(this.state.value) ?? null;
  }
  /** The operation that makes the selection. */
  get node(): GraphNode | null {
    return this.graph?.producer.get(this.state.value) ?? null;
  }
  relist(): void {
    this.listing = list(this.session, this.graph, this.state, [...this.others.values()]);
  }
  select(p: Point | null | undefined): void {
    if (p) this.store.set({ value: p.value, axes: "", index: "", window: "" });
  }
  selectValue(value: string): void {
    if (this.byValue.has(value) || this.others.has(value)) this.store.set({ value, axes: "", index: "", window: "" });
  }
  /** The neighbour in the list; `red` skips what is not. */
  step(by: number, red = false): void {
    const shown = this.listing.shown;
    let at = shown.findIndex((p) => p.value === this.state.value);
    if (at < 0) at = by > 0 ? -1 : shown.length;
    for (at += by; at >= 0 && at < shown.length; at += by) {
      if (!red || signOf(shown[at], this.metric) === "r") {
        this.select(shown[at]);
        return;
      }
    }
  }
  /** The next of the blame list, round and round. */
  culprit(by = 1): void {
    const all = this.session.blame.map((b) => b.value).filter((v) => this.blamed(v));
    if (!all.length) return;
    const at = all.indexOf(this.state.value);
    this.selectValue(all[at < 0 ? (by > 0 ? 0 : all.length - 1) : (at + by + all.length) % all.length]);
  }
  worst(): void {
    const blamed = this.session.blame[0] && this.blamed(this.session.blame[0].value);
    this.select(blamed ?? this.listing.shown[0]);
  }
  first(): void {
    if (this.session.first_divergence) this.select(this.byValue.get(this.session.first_divergence));
  }
  /** B's op: as its recording names it, else where the graph tells it. */
  opOfB(p: Point): string {
    if (p.counterpart_op) return p.counterpart_op;
    if (!p.counterpart) return "";
    const found = (this.session.has_reference ? this.reference : this.graph)?.producer.get(p.counterpart)?.op;
    return found ?? (p.counterpart === p.value ? p.op : "");
  }
}

/** What made it; a recording may not say. */
export const opOf = (p: Point): string => p.op || (p.input ? "input" : p.verdict === "weight" ? "weight" : "–");

/** The figure of a value: what is NaN or Inf on one side has none. */
export function figureOf(p: Point, metric: number): string {
  if (p.nonfinite) {
    const [nan, inf] = p.nonfinite;
    return [nan ? `NaN ×${nan}` : "", inf ? `Inf ×${inf}` : ""].filter((x) => x).join(" ");
  }
  if (p.class === "structural") return "differs";
  return score(p.metrics[metric]);
}

/** Signs differ in shape as well as in colour: a culprit is not just a worse red. */
export function shapeOf(p: Point, metric: number): string {
  if (p.verdict === "weight") return "▦";
  if (p.verdict === "input" || p.input) return "▸";
  if (p.verdict === "culprit") return "▲";
  if (p.verdict === "mismatch") return "■";
  if (p.verdict === "nondeterministic") return "◐";
  const c = signOf(p, metric);
  return c === "r" && (p.verdict === "inherited" || p.verdict === "amplified") ? "△" : dots[c];
}

export const dots: Record<string, string> = { g: "●", y: "◆", r: "▲", "-": "○" };
export const colourNames: Record<string, string> = { g: "green", y: "yellow", r: "red", "-": "no colour" };
export const colourVars: Record<string, string> = { g: "good", y: "mid", r: "bad", "-": "none" };

/** What each verdict says, in the words of docs/glossary.md. */
export const verdictWords: Record<string, string> = {
  same: "bit-identical in A and B",
  within: "differs only by rounding",
  culprit: "wrong although its inputs are right: this operation is to blame",
  inherited: "wrong because an input is wrong",
  amplified: "made a small error of its inputs larger",
  nondeterministic: "differs from run to run",
  mismatch: "type or shape differs",
  unpaired: "nothing in B corresponds to it",
  unverified: "recorded, but neither compared nor replayed",
  "not recorded": "A does not expose this value",
  weight: "a constant of the model",
  input: "an input of the model",
};
