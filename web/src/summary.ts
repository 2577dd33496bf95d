// The inspector without a selection: the verdict and what it rests on, the blame list, how to read the page.
import type { App } from "./app";
import { dots, verdictWords } from "./app";
import type { Run, Session } from "./data";
import { clean, fill, h, number, percent, table } from "./dom";
import { signOf } from "./rows";

/** How the verdict is shown. Agreement is green only where nothing on the page is red. */
export function badgeOf(s: Session, metric: number): { look: string; text: string; note: string } {
  if (s.kind === "model") return { look: "", text: "model", note: "" };
  if (s.verdict !== "agree") {
    const wrong = ["diverged", "nondeterministic", "failed", "crashed"].includes(s.verdict) || !!s.a.failure;
    return { look: wrong ? "wrong" : "wary", text: s.verdict, note: "" };
  }
  const red = s.points.filter((p) => signOf(p, metric) === "r" && !p.accepted).length;
  const open = s.coverage ? s.coverage.outputs - s.coverage.outputs_compared : 0;
  if (red) return { look: "wary", text: "agree", note: `${red} ${red === 1 ? "value is" : "values are"} red inside` };
  if (open > 0) return { look: "wary", text: "agree", note: `${open} of ${s.coverage!.outputs} outputs not compared` };
  return { look: "sure", text: "agree", note: "" };
}

/** What the verdict rests on, in one line. */
export function coverageText(s: Session): string {
  const c = s.coverage;
  if (!c) return "";
  const more = [
    `${c.verified} verified`,
    c.unverified ? `${c.unverified} unverified` : "",
    c.unpaired ? `${c.unpaired} unpaired` : "",
  ].filter((x) => x);
  return `${c.outputs_compared} of ${c.outputs} ${c.outputs === 1 ? "output" : "outputs"} compared; values: ${more.join(", ")}`;
}

const run = (r: Run): string => clean([r.spec || r.backend, r.version, r.path].filter((x) => x).join(" "));

export const faults: Record<string, string> = {
  runtime: "The runtime is wrong: it differs from its own model.",
  model: "The exported model is wrong: it differs from the recording.",
  both: "Both are wrong: the exported model differs from the recording, and the runtime from its model.",
};

export function summary(app: App): HTMLElement[] {
  const s = app.session;
  if (s.kind === "model") return modelSummary(app);
  const list = (title: string, items: HTMLElement[], attrs: Record<string, string> = {}, tag: "ul" | "ol" = "ul") =>
    items.length ? [h("h3", {}, title), h(tag, attrs, ...items)] : [];
  const badge = badgeOf(s, app.metric);
  return [
    h("h2", {}, `Verdict: ${s.verdict}`),
    h("p", {}, clean(s.reason)),
    ...(badge.note ? [h("p", { class: "callout mid", id: "badge-note" }, `${badge.note}.`)] : []),
    ...(faults[s.at_fault] ? [h("p", { class: "callout bad", id: "at-fault" }, faults[s.at_fault])] : []),
    h("p", { class: "quiet", id: "coverage" }, coverageText(s)),
    ...(s.a.failure || s.b.failure ? [failure(app)] : []),
    ...(s.observer_effect
      ? [h("p", { class: "callout mid" }, `Recording changes the outputs. ${clean(s.observer_note)}`)]
      : []),
    ...list(
      "Blame",
      s.blame
        .slice(0, 50)
        .map((b) =>
          h(
            "li",
            {},
            h("button", { class: "link", onclick: () => app.selectValue(b.value) }, clean(`${b.op} ${b.value}`, 200)),
            h(
              "div",
              { class: "quiet" },
              [
                clean([b.kind, b.where].filter((x) => x).join(", ")),
                b.q === null
                  ? ""
                  : `local error ${b.q > 1e6 ? "far beyond its bound" : `${number(b.q)} times its bound`}`,
                b.effect === null ? "" : `${percent(b.effect)} of the outputs' error`,
                clean(b.module),
              ]
                .filter((x) => x)
                .join(" · "),
            ),
          ),
        ),
      { id: "blame" },
      "ol",
    ),
    ...list(
      "Calls that the exporter lost",
      s.lost_calls
        .slice(0, 50)
        .map((c) =>
          h(
            "li",
            {},
            h("code", {}, clean(c.op)),
            ` ${c.status}, ${clean(c.file)}:${c.line} `,
            h("code", {}, clean(c.source, 160)),
          ),
        ),
      { id: "lost-calls" },
    ),
    ...list(
      "Only in B",
      s.left_over.slice(0, 50).map((l) => h("li", {}, clean(`${l.value} (${l.op}): ${l.reason}`))),
    ),
    ...list(
      "Notes",
      s.notes.map((n) => h("li", {}, clean(n))),
    ),
    h("h3", {}, "Runs"),
    table([
      ["A, under test", run(s.a)],
      ["B, the reference", run(s.b) || "not run"],
      ["profile", s.profile],
      ...(s.replayed + s.unreplayed
        ? [
            [
              "replayed in fp64",
              `${s.replayed} ${s.replayed === 1 ? "value" : "values"}${s.unreplayed ? `, not ${s.unreplayed}` : ""}`,
            ],
          ]
        : []),
      ...(s.created ? [["created", clean(s.created)]] : []),
    ]),
    ...legend(),
  ];
}

function failure(app: App): HTMLElement {
  const s = app.session,
    side = s.a.failure ? "A" : "B",
    r = s.a.failure ? s.a : s.b;
  return h(
    "div",
    { class: "callout bad", id: "run-failed" },
    h("strong", {}, `${side} ${r.signal ? `crashed (signal ${r.signal})` : "failed"}: ${clean(r.spec || r.backend)}`),
    h("div", {}, clean(r.failure)),
    h(
      "div",
      { class: "quiet" },
      s.points.length ? "Values recorded before that are listed." : "Nothing was recorded before that.",
    ),
    s.blame.length
      ? h(
          "div",
          {},
          "It happens at ",
          h(
            "button",
            { class: "link", id: "failed-at", onclick: () => app.selectValue(s.blame[0].value) },
            clean(s.blame[0].value, 160),
          ),
          ": select it to shrink the model to a repro (Minify), or try another backend with Compare…",
        )
      : h("div", { class: "quiet" }, "Try another backend or smaller inputs with Compare…"),
  );
}

/** Every sign of the page, in words. */
function legend(): HTMLElement[] {
  const signs: [string, string, string][] = [
    ["▲", "bad", "culprit: " + verdictWords.culprit],
    ["△", "bad", "inherited or amplified: large error that comes from its inputs"],
    ["■", "bad", "mismatch: " + verdictWords.mismatch],
    ["◐", "bad", "nondeterministic: " + verdictWords.nondeterministic],
    [dots.y, "mid", "moderate divergence"],
    [dots.g, "good", "close match, or bit-identical"],
    [dots["-"], "none", "not compared"],
  ];
  const words: [string, string][] = [
    ["q", "the local error of an operation, as a multiple of what rounding allows; above 4 is a culprit"],
    [
      "effect",
      "how much of the outputs' error appears in the fp64 run when only this culprit's error is added; 100 % is all of it",
    ],
    ["local, propagated", "the error an operation adds itself; the error of everything up to it"],
    ["gold", "the fp64 run of the model"],
  ];
  return [
    h("h3", {}, "How to read this"),
    h(
      "p",
      { class: "quiet", id: "how" },
      "Each row is a value that A computed, next to the same value of B. Select a row or a box to see its tensors. w selects the worst value, c the next culprit, ? lists all keys.",
    ),
    h(
      "table",
      { id: "signs" },
      ...signs.map(([sign, look, text]) =>
        h("tr", {}, h("th", { scope: "row" }, h("span", { class: look }, sign)), h("td", {}, text)),
      ),
      ...words.map(([w, text]) => h("tr", {}, h("th", { scope: "row" }, w), h("td", {}, text))),
    ),
  ];
}

/** A model that nothing was compared with yet. */
function modelSummary(app: App): HTMLElement[] {
  const g = app.graph,
    s = app.session;
  if (!g) return [h("p", { class: "quiet" }, "Reading the model…")];
  const ops = new Map<string, number>();
  for (const n of g.nodes) ops.set(n.op, (ops.get(n.op) ?? 0) + 1);
  const value = (v: number): HTMLElement =>
    h(
      "tr",
      {},
      h(
        "th",
        { scope: "row" },
        h("button", { class: "link", onclick: () => app.selectValue(g.values[v]) }, clean(g.values[v], 120)),
      ),
      h("td", { class: "mono" }, clean(g.types[v], 120)),
    );
  const top = [...ops].sort((x, y) => y[1] - x[1] || (x[0] < y[0] ? -1 : 1));
  const dims = dimsOf(g.inputs.map((v) => g.types[v]));
  const out = h("div", {});
  fill(
    out,
    h("h2", {}, clean(s.model.path.split("/").pop() ?? "model")),
    h("p", {}, `${g.nodes.length} operations, ${g.weights.size} weights. Nothing has been compared yet.`),
    dims.length && app.source.live ? dimFields(app, dims) : null,
    h("h3", {}, "Inputs"),
    h("table", { id: "model-inputs" }, ...g.inputs.filter((v) => !g.weights.has(v)).map(value)),
    h("h3", {}, "Outputs"),
    h("table", { id: "model-outputs" }, ...g.outputs.map(value)),
    h("h3", {}, "Operations"),
    h(
      "table",
      { id: "model-ops" },
      ...top
        .slice(0, 40)
        .map(([op, n]) =>
          h(
            "tr",
            {},
            h(
              "th",
              { scope: "row" },
              h("button", { class: "link", onclick: () => app.store.set({ query: `op=${op}` }) }, clean(op, 60)),
            ),
            h("td", { class: "mono" }, String(n)),
          ),
        ),
    ),
  );
  return [out];
}

/** Names of dims in the types of the inputs: float32[batch,3,H,W]. */
export function dimsOf(types: string[]): string[] {
  const out = new Set<string>();
  for (const t of types)
    for (const d of (/\[([^\]]*)\]/.exec(t)?.[1] ?? "").split(","))
      if (/^[A-Za-z_]\w*$/.test(d.trim())) out.add(d.trim());
  return [...out].slice(0, 12);
}

/** Shapes with chosen dims: the server infers them again. */
function dimFields(app: App, dims: string[]): HTMLElement {
  const now = new Map(app.state.dims.split(",").map((x) => x.split("=") as [string, string]));
  return h(
    "div",
    { class: "pickers", id: "dims" },
    ...dims.map((d) =>
      h(
        "label",
        {},
        `${clean(d, 40)} = `,
        h("input", {
          type: "number",
          class: "index",
          min: 1,
          value: now.get(d) ?? "",
          "aria-label": `size of ${clean(d, 40)}`,
          onchange: (e: Event) => {
            const v = (e.target as HTMLInputElement).value;
            if (v) now.set(d, v);
            else now.delete(d);
            app.store.set({
              dims: [...now]
                .filter(([k, x]) => k && x)
                .map(([k, x]) => `${k}=${x}`)
                .join(","),
            });
          },
        }),
      ),
    ),
  );
}
