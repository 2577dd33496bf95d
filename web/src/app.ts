// What the panes share: the data, the state, the current list and selection.
import type { Graph, Point, Session, Source } from "./data";
import { list, metricIndex, type Listing } from "./rows";
import type { State, Store } from "./state";

export class App {
  listing: Listing = { rows: [], shown: [] };
  readonly byValue = new Map<string, Point>();
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
  get state(): State {
    return this.store.state;
  }
  get metric(): number {
    return metricIndex(this.session, this.state.metric);
  }
  get point(): Point | null {
    return this.byValue.get(this.state.value) ?? null;
  }
  relist(): void {
    this.listing = list(this.session, this.graph, this.state);
  }
  select(p: Point | null | undefined): void {
    if (p) this.store.set({ value: p.value, axes: "", index: "", window: "" });
  }
  /** The neighbour in the list; `red` skips what is not. */
  step(by: number, red = false): void {
    const shown = this.listing.shown;
    let at = shown.findIndex((p) => p.value === this.state.value);
    if (at < 0) at = by > 0 ? -1 : shown.length;
    for (at += by; at >= 0 && at < shown.length; at += by) {
      if (!red || shown[at].colours[this.metric] === "r") {
        this.select(shown[at]);
        return;
      }
    }
  }
  worst(): void {
    const blamed = this.session.blame[0] && this.byValue.get(this.session.blame[0].value);
    this.select(blamed ?? this.listing.shown[0]);
  }
  first(): void {
    if (this.session.first_divergence) this.select(this.byValue.get(this.session.first_divergence));
  }
  /** B's op, where the graph tells it. */
  opOfB(p: Point): string {
    if (!p.counterpart) return "";
    const found = (this.session.has_reference ? this.reference : this.graph)?.producer.get(p.counterpart)?.op;
    return found ?? (p.counterpart === p.value ? p.op : p.counterpart);
  }
}

/** What made it; a recording may not say. */
export const opOf = (p: Point): string => p.op || (p.input ? "input" : "–");

export const dots: Record<string, string> = { g: "●", y: "◆", r: "▲", "-": "○" };
export const colourNames: Record<string, string> = { g: "green", y: "yellow", r: "red", "-": "no colour" };
export const colourVars: Record<string, string> = { g: "good", y: "mid", r: "bad", "-": "none" };
