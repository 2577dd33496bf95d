// The printed report: verdict, what it rests on, the blame list, and pictures of the worst. On A4, at most three pages.
import { figureOf, opOf, type App } from "./app";
import { clean, fill, h, number } from "./dom";
import { paint, rangeOf } from "./heat";
import { signOf } from "./rows";
import { badgeOf, coverageText } from "./summary";

const PICTURES = 3,
  ROWS = 30;

async function picture(app: App, index: number): Promise<HTMLElement | null> {
  try {
    const p = await app.source.slice(index, null),
      shared = rangeOf([p.a, p.b], false);
    const images = (["a", "d", "b"] as const)
      .filter((s) => p[s])
      .map((s) => {
        const c = h("canvas", { width: p.cols, height: p.rows, "aria-hidden": "true" }),
          g = c.getContext("2d")!,
          image = g.createImageData(p.cols, p.rows);
        paint(image, p[s]!, s === "d" ? "difference" : "value", s === "d" ? rangeOf([p.d], false) : shared, false);
        g.putImageData(image, 0, 0);
        const scale = Math.min(190 / p.cols, 150 / p.rows);
        c.style.width = `${Math.max(20, Math.round(p.cols * scale))}px`;
        c.style.height = `${Math.max(8, Math.round(p.rows * scale))}px`;
        return h("figure", {}, h("figcaption", {}, { a: "A", d: "A − B", b: "B" }[s]), c);
      });
    return h("div", { class: "three" }, ...images);
  } catch {
    return null; // the tensors were not kept
  }
}

/** Filled once the session is shown, so that printing needs no waiting. */
export async function printed(app: App, into: HTMLElement): Promise<void> {
  const s = app.session,
    badge = badgeOf(s, app.metric);
  const blamed = s.blame.slice(0, PICTURES).map((b) => app.byValue.get(b.value));
  const worst = (blamed.length ? blamed : app.listing.shown.slice(0, PICTURES)).filter((p) => p !== undefined);
  const pictures = await Promise.all(worst.map((p) => picture(app, p.index)));
  const bad = app.listing.shown.filter((p) => signOf(p, app.metric) === "r" || p.blame);
  fill(
    into,
    h("p", {}, clean(s.reason), badge.note ? ` (${badge.note})` : ""),
    h("p", {}, coverageText(s)),
    s.blame.length
      ? h(
          "table",
          {},
          h("tr", {}, ...["Blame", "Value", "Kind", "Effect", "Module"].map((t) => h("th", { scope: "col" }, t))),
          ...s.blame
            .slice(0, ROWS)
            .map((b) =>
              h(
                "tr",
                {},
                ...[b.op, b.value, [b.kind, b.where].filter((x) => x).join(", "), number(b.effect, 3), b.module].map(
                  (t) => h("td", {}, clean(t, 80)),
                ),
              ),
            ),
        )
      : null,
    ...worst.map((p, i) =>
      h(
        "section",
        {},
        h("h3", {}, clean(`${opOf(p)} ${p.value}: ${p.verdict}, ${figureOf(p, app.metric)}`, 200)),
        pictures[i],
      ),
    ),
    h("h3", {}, `Red values (${bad.length})`),
    h(
      "table",
      {},
      ...bad
        .slice(0, ROWS)
        .map((p) =>
          h("tr", {}, ...[opOf(p), p.value, figureOf(p, app.metric), p.verdict].map((t) => h("td", {}, clean(t, 100)))),
        ),
    ),
    bad.length > ROWS ? h("p", {}, `and ${bad.length - ROWS} more`) : null,
  );
}
