// Several sessions in one table: what each backend makes of each value, or each layer in each step. A cell opens its session.
import type { Server } from "./data";
import { clean, fill, h, number, score } from "./dom";
import { num } from "./data";

interface Cell {
  verdict: string;
  similarity: string;
  q: unknown;
  [metric: string]: unknown;
}
interface Many {
  model: string;
  reference: string;
  metric: string;
  exit_code: number;
  backends: {
    spec: string;
    version: string;
    verdict: string;
    reason: string;
    session: string;
    blame: { op: string; value: string; q: unknown }[];
  }[];
  agree_without_reference: { value: string; op: string; backends: number[] } | null;
  values: { value: string; op: string; is_output: boolean; of: (Cell | null)[] }[];
}
interface Steps {
  model: string;
  verdict: string;
  reason: string;
  a: { spec: string };
  b: { spec: string } | null;
  first_divergent_step: number | null;
  steps: {
    past: number;
    choice_a: number | null;
    choice_b: number | null;
    flip: boolean;
    tie: boolean;
    kl?: unknown;
    score: unknown;
    verdict: string | null;
  }[];
  analyses: {
    step: number;
    verdict: string;
    reason: string;
    session: string;
    layers: { layer: number | null; q: unknown; value: string; culprit: boolean }[];
  }[];
}

const MOST = 2000; // rows on the page at once
const last = (path: string): string => path.split("/").pop() ?? "";
const looks: Record<string, string> = { agree: "sure", diverged: "wrong", failed: "wrong", nondeterministic: "wrong" };
const badge = (verdict: string): HTMLElement =>
  h("span", { class: `badge ${looks[verdict] ?? "wary"}` }, clean(verdict, 40));

/** The way back from one of the sessions. */
export function toTable(kind: string): HTMLElement {
  const go = (): void => {
    location.hash = "#table";
    location.reload();
  };
  return h("button", { id: "to-table", onclick: go }, kind === "many" ? "All backends" : "All steps");
}

/** Shows the session of that name, at a value. */
async function openPart(server: Server, session: string, value: string): Promise<void> {
  try {
    await server.post("/api/part", { session: last(session) });
    location.hash = value ? `value=${encodeURIComponent(value)}` : "";
    location.reload();
  } catch (e) {
    fill(document.getElementById("table-error")!, clean((e as Error).message));
  }
}

type Open = (session: string, value: string) => void;
const cell = (
  look: string,
  sign: string,
  figure: string,
  word: string,
  open: (() => void) | null,
  title: string,
): HTMLElement =>
  h(
    "td",
    { class: `cell ${look}`, title },
    h(
      "button",
      { onclick: open ?? undefined, disabled: !open },
      h("span", { class: look, "aria-hidden": "true" }, sign),
      h("span", { class: "mono" }, figure),
      h("span", { class: "word" }, word),
    ),
  );

const wrong = new Set(["culprit", "mismatch", "nondeterministic"]);
const spread = new Set(["inherited", "amplified"]);
function cellOf(c: Cell | null, metric: string, open: () => void, title: string): HTMLElement {
  if (!c) return h("td", { class: "quiet", title: "not recorded on this backend" }, "–");
  const bad = wrong.has(c.verdict) || (spread.has(c.verdict) && c.similarity === "red");
  const look = bad
    ? "bad"
    : spread.has(c.verdict) || c.similarity === "yellow"
      ? "mid"
      : c.similarity === "green" || c.verdict === "within"
        ? "good"
        : "none";
  const sign = wrong.has(c.verdict) ? "▲" : { bad: "△", mid: "◆", good: "●", none: "○" }[look];
  return cell(look, sign, score(num(c[metric])), c.verdict, open, title);
}

/** "they agree with each other and not with the reference" */
function together(m: Many): HTMLElement | null {
  const g = m.agree_without_reference;
  if (!g) return null;
  const who = g.backends.map((k) => `${k + 1} (${m.backends[k]?.spec ?? "?"})`);
  return h(
    "p",
    { class: "callout mid", id: "together" },
    h(
      "strong",
      {},
      clean(`Backends ${who.join(" and ")} agree with each other and not with the reference ${last(m.reference)}`, 400),
    ),
    clean(
      ` from ${g.op} ${g.value} on. A different reading of the operator, or a wrong reference, is likelier than the same fault twice.`,
      500,
    ),
  );
}

function manyTable(m: Many, open: Open): HTMLElement[] {
  const off = (v: Many["values"][0]): boolean =>
    v.of.some((c) => c && (wrong.has(c.verdict) || spread.has(c.verdict) || c.similarity === "red"));
  const some = m.values.filter(off),
    body = h("tbody", {}),
    count = h("span", { class: "count", id: "table-count", role: "status" });
  const draw = (all: boolean): void => {
    const rows = all ? m.values : some;
    fill(
      body,
      ...rows
        .slice(0, MOST)
        .map((v) =>
          h(
            "tr",
            {},
            h(
              "th",
              { scope: "row", title: clean(v.value) },
              h("b", {}, clean(v.op || (v.is_output ? "output" : "input"), 60)),
              ` ${clean(v.value, 160)}`,
            ),
            ...v.of.map((c, k) =>
              cellOf(
                c,
                m.metric,
                () => open(m.backends[k].session, v.value),
                `backend ${k + 1}, ${clean(v.value, 160)}: open its session`,
              ),
            ),
          ),
        ),
    );
    count.textContent = `${Math.min(MOST, rows.length)} of ${m.values.length} values`;
  };
  draw(!some.length);
  const blame = (b: Many["backends"][0]): HTMLElement =>
    b.blame.length
      ? h(
          "div",
          {},
          "blame: ",
          h(
            "button",
            { class: "link", onclick: () => open(b.session, b.blame[0].value) },
            clean(`${b.blame[0].op} ${b.blame[0].value}`, 120),
          ),
          b.blame.length > 1 ? ` and ${b.blame.length - 1} more` : "",
        )
      : h("div", { class: "quiet" }, clean(b.reason, 160));
  const head = h(
    "tr",
    {},
    h(
      "th",
      { scope: "col" },
      h("b", {}, "value"),
      h("div", { class: "quiet" }, `${clean(m.metric, 20)} and verdict of each backend`),
    ),
    ...m.backends.map((b, k) =>
      h(
        "th",
        { scope: "col" },
        h("b", {}, `${k + 1} ${clean(b.spec, 80)}`),
        h("div", {}, badge(b.verdict), ` ${clean(b.version, 30)}`),
        blame(b),
      ),
    ),
  );
  const all = h("input", {
    type: "checkbox",
    id: "table-all",
    checked: !some.length,
    onchange: (e: Event) => draw((e.target as HTMLInputElement).checked),
  });
  return [
    h("div", { class: "bar" }, h("label", {}, all, "all values, not only those that are off on some backend"), count),
    grid("many-table", "Values by backend", head, body),
  ];
}

const grid = (id: string, label: string, head: HTMLElement, body: HTMLElement): HTMLElement =>
  h(
    "section",
    { class: "pane", "aria-label": label },
    h(
      "div",
      { class: "scroll", tabIndex: 0, role: "region", "aria-label": label },
      h("table", { id }, h("thead", {}, head), body),
    ),
  );

function stepsTable(s: Steps, open: Open): HTMLElement[] {
  const layers = [...new Set(s.analyses.flatMap((a) => a.layers.map((l) => l.layer)))].sort(
    (x, y) => (x ?? Infinity) - (y ?? Infinity),
  );
  const head = h(
    "tr",
    {},
    ...["step", "token A", "token B", "KL", "score"].map((t) => h("th", { scope: "col" }, t)),
    ...layers.map((l) => h("th", { scope: "col" }, l === null ? "other" : `layer ${l}`)),
  );
  const body = h("tbody", {});
  s.steps.slice(0, MOST).forEach((x, i) => {
    const a = s.analyses.find((y) => y.step === i),
      off = (num(x.score) ?? 0) > 1;
    const name = h(
      "th",
      { scope: "row" },
      a ? h("button", { class: "link", onclick: () => open(a.session, "") }, `step ${i}`) : `step ${i}`,
      a ? ` ${clean(a.verdict, 30)}` : "",
    );
    const text = (t: string, look = ""): HTMLElement => h("td", { class: `mono ${look}` }, t);
    const layer = (l: number | null): HTMLElement => {
      const found = a?.layers.find((y) => y.layer === l);
      if (!a || !found)
        return h(
          "td",
          {
            class: `${off && !a ? "mid" : ""} quiet`,
            title: a ? "nothing of this layer was recorded" : off ? "differs; not analysed" : "not analysed",
          },
          off && !a ? "◆" : "–",
        );
      const q = num(found.q);
      return cell(
        found.culprit ? "bad" : "good",
        found.culprit ? "▲" : "●",
        q === null ? "" : q > 1e6 ? "> 1e6" : number(q, 3),
        "",
        () => open(a.session, found.value),
        `step ${i}, ${clean(found.value, 160)}: ${found.culprit ? "culprit" : "within its bound"}, q is its local error in units of the bound`,
      );
    };
    body.append(
      h(
        "tr",
        { class: i === s.first_divergent_step ? "first" : "" },
        name,
        text(x.choice_a === null || x.choice_a === undefined ? "" : String(x.choice_a)),
        text(
          x.choice_b === null || x.choice_b === undefined
            ? ""
            : String(x.choice_b) + (x.flip ? (x.tie ? " tie" : " ≠") : ""),
        ),
        text(x.kl === undefined ? "" : number(num(x.kl), 3)),
        text(number(num(x.score), 3), off ? "bad" : ""),
        ...layers.map(layer),
      ),
    );
  });
  return [
    h(
      "p",
      { class: "quiet" },
      "▲ culprit, ● within its bound (the figure is q, the largest local error of the layer in units of its bound), ◆ differs and was not analysed, – not analysed. A score above 1 is more than the precision explains.",
    ),
    grid("steps-table", "Layers by step", head, body),
  ];
}

/** False if the server has no table. */
export async function showTable(server: Server, root: HTMLElement): Promise<boolean> {
  const raw: { kind: string; document: unknown } | null = await (await server.get("/api/table")).json();
  if (!raw) return false;
  const open: Open = (session, value) => void openPart(server, session, value);
  const many = raw.kind === "many" ? (raw.document as Many) : null,
    steps = many ? null : (raw.document as Steps);
  const ends = ["agree", "diverged", "inconclusive", "failed", "failed"];
  const verdict = many ? (ends[many.exit_code] ?? "failed") : steps!.verdict,
    model = last((many ?? steps!).model || "");
  const n = many ? many.backends.filter((b) => b.verdict !== "agree").length : 0;
  const reason = many
    ? `${n} of ${many.backends.length} backends ${n === 1 ? "does" : "do"} not agree with ${last(many.reference)}`
    : steps!.reason;
  document.title = `plumb: ${clean(model, 60)} ${verdict}`;
  fill(
    root,
    h(
      "header",
      {},
      h(
        "h1",
        {},
        "plumb",
        h("span", { class: `badge ${looks[verdict] ?? "wary"}`, id: "verdict-badge" }, clean(verdict, 40)),
      ),
      h("span", { class: "headline", title: clean(reason) }, clean(reason, 300)),
      h(
        "div",
        { class: "facts" },
        h("span", {}, h("b", {}, clean(model, 80))),
        steps ? h("span", {}, "A ", h("b", {}, clean(steps.a.spec, 80))) : null,
        h("span", {}, "B ", h("b", {}, clean(last(many ? many.reference : (steps!.b?.spec ?? "")), 80))),
      ),
    ),
    h(
      "main",
      { class: "table" },
      many ? together(many) : null,
      h("p", { class: "callout bad", id: "table-error", role: "alert" }),
      ...(many ? manyTable(many, open) : stepsTable(steps!, open)),
    ),
  );
  root.dataset.ready = "1";
  return true;
}
