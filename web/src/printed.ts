// The printed report: verdict, what it rests on, the blame list, and pictures of the worst. On A4, at most three pages.
import { figureOf, opOf, type App } from "./app";
import { clean, fill, h, number, percent } from "./dom";
import { paint, rangeOf, wildOf } from "./heat";
import { signOf } from "./rows";
import { badgeOf, faults } from "./summary";

const PICTURES = 3,
  ROWS = 30;

async function picture(app: App, index: number, gold: boolean): Promise<HTMLElement | null> {
  try {
    const p = await app.source.slice(index, null),
      shared = rangeOf([p.a, p.b], false),
      own = rangeOf([p.d], false),
      most = Math.max(Math.abs(own.lo), Math.abs(own.hi)),
      names = gold ? { a: "A", d: "A − fp64", b: "fp64" } : { a: "A", d: "A − B", b: "B" };
    const images = (["a", "d", "b"] as const)
      .filter((s) => p[s])
      .map((s) => {
        const c = h("canvas", { width: p.cols, height: p.rows, "aria-hidden": "true" }),
          g = c.getContext("2d")!,
          image = g.createImageData(p.cols, p.rows);
        paint(image, p[s]!, s === "d" ? "difference" : "value", s === "d" ? own : shared, false);
        g.putImageData(image, 0, 0);
        const scale = Math.min(190 / p.cols, 150 / p.rows);
        c.style.width = `${Math.max(20, Math.round(p.cols * scale))}px`;
        c.style.height = `${Math.max(8, Math.round(p.rows * scale))}px`;
        const told = (s === "d" ? [-most, most] : [shared.lo, shared.hi]).map((x) => number(x, 3)).join(" … ");
        return h("figure", {}, h("figcaption", {}, h("strong", {}, names[s]), told), c, wildText(p[s]!));
      });
    return h("div", { class: "three" }, ...images);
  } catch {
    return null; // the tensors were not kept
  }
}

/** The colours of NaN and Inf, where they occur. */
function wildText(cells: ArrayLike<number>): HTMLElement | null {
  const n = wildOf(cells),
    parts = [
      n.nan ? `magenta: NaN ×${n.nan}` : "",
      n.plus ? `cyan: +Inf ×${n.plus}` : "",
      n.minus ? `teal: −Inf ×${n.minus}` : "",
    ].filter((x) => x);
  return parts.length ? h("div", { class: "quiet" }, parts.join(", ")) : null;
}

const rowsOf = (head: string[], rows: string[][]): HTMLElement =>
  h(
    "table",
    {},
    h("tr", {}, ...head.map((t) => h("th", { scope: "col" }, t))),
    ...rows.map((r) => h("tr", {}, ...r.map((t) => h("td", {}, clean(t, 100))))),
  );

/** Filled once the session is shown, so that printing needs no waiting. */
export async function printed(app: App, into: HTMLElement): Promise<void> {
  const s = app.session,
    badge = badgeOf(s, app.metric);
  const blamed = s.blame.slice(0, PICTURES).map((b) => app.byValue.get(b.value));
  const worst = (blamed.length ? blamed : app.listing.shown.slice(0, PICTURES)).filter((p) => p !== undefined);
  const pictures = await Promise.all(worst.map((p) => picture(app, p.index, !p.b)));
  const bad = app.listing.shown.filter((p) => signOf(p, app.metric) === "r" || p.blame),
    metric = s.metrics[app.metric];
  const source = (value: string): string => {
    const n = app.graph?.producer.get(value);
    return app.byValue.get(value)?.source || (n?.file ? `${n.file}:${n.line}` : "");
  };
  const failure = s.a.failure || s.b.failure;
  fill(
    into,
    badge.note ? h("p", {}, `${badge.note}.`) : null,
    faults[s.at_fault] ? h("p", {}, faults[s.at_fault]) : null,
    failure ? h("p", {}, clean(failure)) : null,
    s.blame.length ? h("h3", {}, "Blame") : null,
    s.blame.length
      ? rowsOf(
          ["Operation", "Value", "Kind", "Effect", "Module", "Source"],
          s.blame
            .slice(0, ROWS)
            .map((b) => [
              b.op,
              b.value,
              [b.kind, b.where].filter((x) => x).join(", "),
              b.effect === null ? "" : percent(b.effect),
              b.module,
              source(b.value).split("/").pop()!,
            ]),
        )
      : null,
    ...worst.map((p, i) =>
      h(
        "section",
        {},
        h("h3", {}, clean(`${opOf(p)} ${p.value}: ${p.verdict}, ${figureOf(p, app.metric)}`, 200)),
        p.reason ? h("p", { class: "quiet" }, clean(p.reason)) : null,
        pictures[i],
      ),
    ),
    s.lost_calls.length ? h("h3", {}, "Calls that the exporter lost") : null,
    s.lost_calls.length
      ? rowsOf(
          ["Call", "", "Line", ""],
          s.lost_calls.slice(0, ROWS).map((c) => [c.op, c.status, `${c.file}:${c.line}`, c.source]),
        )
      : null,
    bad.length ? h("h3", {}, `Red values (${bad.length})`) : null,
    bad.length
      ? rowsOf(
          ["Operation", "Value", `${metric.name} ${metric.unit.startsWith("=") ? "" : metric.unit}`, "Verdict"],
          bad.slice(0, ROWS).map((p) => [opOf(p), p.value, figureOf(p, app.metric), p.verdict]),
        )
      : null,
    bad.length > ROWS ? h("p", {}, `and ${bad.length - ROWS} more`) : null,
    ...s.notes.slice(0, 8).map((n) => h("p", { class: "quiet" }, clean(n))),
    h(
      "p",
      { class: "quiet" },
      clean(
        [
          `A ${s.a.spec || s.a.backend} ${s.a.version}`,
          `B ${s.b.spec || s.b.backend || s.b.path} ${s.b.version}`,
          s.created,
        ]
          .filter((x) => x.trim().length > 2)
          .join(" · "),
      ),
    ),
    h("p", { class: "quiet" }, "Effect: share of the outputs' error that this operation alone causes, in fp64."),
  );
}
