// Everything about the selection: what it is and why, and in tabs its tensors, errors, figures, elements, the weights and
// inputs of its operation, its replay, and notes.
import { colourNames, colourVars, dots, figureOf, opOf, shapeOf, verdictWords, type App } from "./app";
import type { Point } from "./data";
import { clean, copyButton, fill, h, keepFocus, number, percent, score } from "./dom";
import { operationOf } from "./operation";
import { replayWords, times } from "./replay";
import { signOf } from "./rows";
import { summary } from "./summary";
import { Tensors } from "./tensors";
import { Weights, weightsOf } from "./weights";

const TABS = [
  ["tensors", "Tensors"],
  ["error", "Error"],
  ["distribution", "Distribution"],
  ["elements", "Elements"],
  ["weights", "Weights"],
  ["operation", "Inputs"],
  ["replay", "Replay"],
  ["notes", "Notes"],
] as const;
type Tab = (typeof TABS)[number][0];

export class Inspector {
  private head = h("div", { class: "inspector-head", id: "inspector-head" });
  private tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Inspector" });
  private panels = {} as Record<Tab, HTMLElement>;
  private body = h("div", { class: "scroll", id: "inspector-body", tabIndex: 0 });
  readonly element = h(
    "section",
    { class: "pane inspector", "aria-label": "Inspector" },
    this.head,
    this.tabs,
    this.body,
  );
  private tensors: Tensors;
  private weights: Weights;
  private replayed = h("div");
  private replayTensors = h("div");
  onpoint: ((p: Point, into: HTMLElement, notes: HTMLElement) => void) | null = null; // more, from the server's side

  constructor(private app: App) {
    for (const [id, label] of TABS) {
      this.panels[id] = h("div", { id: `panel-${id}`, role: "tabpanel", "aria-labelledby": `tab-${id}` });
      this.tabs.append(
        h(
          "button",
          {
            id: `tab-${id}`,
            role: "tab",
            "aria-controls": `panel-${id}`,
            onclick: () => app.store.set({ tab: id }),
          },
          label,
        ),
      );
    }
    this.tabs.onkeydown = (e) => {
      const by = e.key === "ArrowRight" ? 1 : e.key === "ArrowLeft" ? -1 : 0;
      if (!by) return;
      e.preventDefault();
      e.stopPropagation();
      const open = this.offered(),
        at = open.indexOf(this.tab());
      const next = open[(at + by + open.length) % open.length];
      app.store.set({ tab: next });
      document.getElementById(`tab-${next}`)?.focus();
    };
    this.weights = new Weights(app, this.panels.weights);
    this.panels.replay.append(this.replayed, this.replayTensors);
    this.tensors = new Tensors(app, this.element, {
      tensors: this.panels.tensors,
      distribution: this.panels.distribution,
      elements: this.panels.elements,
      replay: this.replayTensors,
    });
  }

  /** Which tabs the selection has. */
  private offered(): Tab[] {
    const p = this.app.selected;
    if (!p) return [];
    const notes: Tab[] = this.panels.notes.childElementCount ? ["notes"] : [];
    const weights: Tab[] = weightsOf(this.app.graph, p.value).length ? ["weights"] : [];
    if (p.index >= 0 && this.app.session.kind === "session")
      return [
        "tensors",
        "error",
        "distribution",
        "elements",
        ...weights,
        "operation",
        ...(p.input ? [] : (["replay"] as const)),
        ...notes,
      ];
    const constant = p.verdict === "weight" || p.op === "Constant";
    return [...(constant ? (["tensors", "distribution"] as const) : []), "operation", ...weights, ...notes];
  }
  private tab(): Tab {
    const offered = this.offered(),
      want = this.app.state.tab as Tab;
    return offered.includes(want) ? want : offered[0];
  }

  private built = new Set<Tab>(); // of the selection, the tabs that were made
  /** A tab is made when it is first looked at. */
  private build(tab: Tab): void {
    const p = this.app.selected;
    if (!p || this.built.has(tab)) return;
    this.built.add(tab);
    if (tab === "error") fill(this.panels.error, this.errors(p), this.metrics(p));
    if (tab === "replay") fill(this.replayed, ...replayWords(p));
    if (tab === "weights") void this.weights.show(p.value, Math.max(160, this.element.clientWidth - 28));
    if (tab === "operation") fill(this.panels.operation, ...operationOf(this.app, p));
  }

  showTab(): void {
    const offered = this.offered(),
      now = this.tab();
    for (const [id] of TABS) {
      const button = this.tabs.querySelector<HTMLElement>(`#tab-${id}`)!;
      button.hidden = !offered.includes(id);
      button.setAttribute("aria-selected", String(id === now));
      button.tabIndex = id === now ? 0 : -1;
      this.panels[id].hidden = id !== now;
    }
    this.tabs.hidden = offered.length < 2;
    this.build(now);
    this.tensors.shown(now);
  }

  update(): void {
    const p = this.app.selected;
    if (!p) {
      fill(this.head);
      this.tabs.hidden = true;
      fill(this.body, ...summary(this.app));
      this.tensors.forget();
      return;
    }
    const isPoint = p.index >= 0 && this.app.session.kind === "session";
    keepFocus(this.element, () => {
      const actions = h("div", { class: "actions" });
      fill(this.panels.notes);
      if (this.app.session.kind === "session") this.onpoint?.(p, actions, this.panels.notes);
      fill(this.head, ...this.about(p), actions.childElementCount ? actions : null);
      this.built.clear();
      this.showTab();
      if (!this.panels.tensors.isConnected) fill(this.body, ...TABS.map(([id]) => this.panels[id]));
    });
    const weight = p.verdict === "weight" || p.op === "Constant";
    this.tensors.show(p, isPoint ? p.index : weight ? p.value : null);
  }

  async reslice(loads: boolean): Promise<void> {
    await this.tensors.reslice(loads);
  }

  // ---- what it is ----

  private about(p: Point): (HTMLElement | null)[] {
    const { app } = this,
      c = signOf(p, app.metric),
      b = app.opOfB(p),
      bare = p.index < 0 || app.session.kind === "model";
    return [
      h("h2", {}, h("span", { id: "point-name" }, clean(p.value)), copyButton(p.value, "Copy the name")),
      h(
        "p",
        { class: "line" },
        h("span", { class: colourVars[c], title: colourNames[c] }, shapeOf(p, app.metric)),
        bare && p.verdict === "not recorded" && app.session.kind === "model"
          ? null
          : h(
              "strong",
              { class: `verdict ${p.verdict}`, id: "point-verdict", title: verdictWords[p.verdict] ?? "" },
              p.verdict,
            ),
        h("span", {}, clean(b && b !== p.op ? `${opOf(p)} ↔ ${b}` : opOf(p), 120)),
        bare ? null : h("span", { class: "mono" }, figureOf(p, app.metric)),
        p.node && p.node !== p.value ? h("span", { class: "quiet" }, clean(p.node, 160)) : null,
      ),
      p.verdict === "not recorded" && app.session.kind === "session"
        ? h("p", { class: "quiet" }, "No sync point: A does not expose this value, or it has no counterpart.")
        : null,
      p.blame
        ? h(
            "div",
            { class: "callout bad", id: "kind" },
            h("strong", {}, clean([p.blame.kind, p.blame.where].filter((x) => x).join(", ") || "local error")),
            h(
              "div",
              {},
              [
                p.blame.q === null || /local error/.test(p.reason) ? "" : `local error ${times(p.blame.q)}`,
                p.blame.effect === null ? "" : `${percent(p.blame.effect)} of the outputs' error`,
              ]
                .filter((x) => x)
                .join(" · "),
            ),
            p.reason ? h("div", { class: "quiet" }, clean(p.reason)) : null,
          )
        : p.reason
          ? h("p", {}, clean(p.reason))
          : null,
      p.excuse ? h("p", {}, `Excuse: ${clean(p.excuse)}`) : null,
      p.left_out ? h("p", {}, `Padding is left out: ${p.left_out} elements, zeros on both sides.`) : null,
      p.accepted ? h("p", {}, "Accepted by the baseline.") : null,
      app.session.samples > 1 && !bare
        ? h("p", { class: "quiet", id: "sample" }, `of sample ${p.sample}, the worst of ${app.session.samples}`)
        : null,
    ];
  }

  private errors(p: Point): HTMLElement {
    const worst = Math.max(p.local ?? 0, p.propagated ?? 0, p.amplified ?? 0) || 1;
    const bar = (x: number | null): HTMLElement =>
      h("meter", {
        min: 0,
        max: 1,
        value: x === null ? 0 : x === worst ? 1 : x / worst,
        "aria-label": "share of the largest error",
      });
    const row = (name: string, words: string, x: number | null): HTMLElement =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, name, h("div", { class: "quiet" }, words)),
        h("td", { class: "mono" }, number(x)),
        h("td", {}, bar(x)),
      );
    return h(
      "div",
      {},
      h("h3", {}, "Origin of the error"),
      h(
        "table",
        { id: "errors" },
        row("local", "this operation replayed in fp64 on A's own inputs, against A (rms)", p.local),
        row("propagated", "A against the fp64 run of the whole model (rms)", p.propagated),
        row("amplified", "this operation on A's inputs, against the fp64 run (rms)", p.amplified),
      ),
      h(
        "p",
        { class: "quiet" },
        p.q === null
          ? "Not replayed in fp64, so there is no bound for its local error."
          : `The local error is ${times(p.q)} (q = ${number(p.q)}; above 4 is a culprit).`,
      ),
    );
  }

  private metrics(p: Point): HTMLElement {
    const s = this.app.session;
    return h(
      "div",
      {},
      h("h3", {}, "Metrics"),
      p.nonfinite
        ? h(
            "p",
            { class: "warn", id: "nonfinite" },
            `${figureOf(p, this.app.metric)} on one side only. The figures below leave these elements out.`,
          )
        : null,
      h(
        "table",
        { id: "metrics" },
        ...s.metrics.map((m, i) => {
          const c = p.nonfinite ? "r" : (p.colours[i] ?? "-"),
            l = p.limits[i],
            unit = m.unit.startsWith("=") ? "" : m.unit;
          return h(
            "tr",
            { class: i === this.app.metric ? "current" : "" },
            h("th", { scope: "row", title: m.long }, clean(m.name)),
            h("td", { class: "mono" }, `${score(p.metrics[i], 6)} ${unit}`),
            h("td", { class: colourVars[c], title: colourNames[c] }, dots[c]),
            h("td", { class: "quiet" }, l ? `${m.higher ? "≥" : "≤"} ${score(l[0])}, ${score(l[1])}` : ""),
          );
        }),
      ),
      p.class
        ? h(
            "p",
            { class: "quiet" },
            `Class ${p.class}, precision ${p.precision ?? "–"}, paired by ${clean(p.paired_by || "–")} (${number(p.confidence)})${p.layout ? `, layout ${clean(p.layout)}` : ""}.`,
          )
        : null,
    );
  }
}
