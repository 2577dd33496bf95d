// Everywhere: WCAG AA by axe in every state of the page, in light and dark; no sideways scrolling from 380 px up; the printed report. Prints TAP.
//   PLUMB=build/plumb node tests/web/test_axe.mjs [-k TEXT] [--screenshots DIR]
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { PATIENCE, analyze, becomes, dir, drawn, equal, finish, make, ok, open, report, root, serve, settled, shots, tab, test, text } from "./harness.mjs";

const axe = readFileSync(join(root, "web/node_modules/axe-core/axe.min.js"), "utf8");
const model = make("small"), folder = join(dir, "s"), session = analyze(model, "jit:inject=nan@Conv:3", folder), culprit = session.blame[0].value;
const server = await serve([folder]), models = await serve([model]);

/** Every violation, with the element that has it. */
async function check(page, state) {
  for (const theme of ["light", "dark"]) {
    await page.evaluate((t) => { document.documentElement.dataset.theme = t; }, theme);
    const found = await page.evaluate(async (source) => {
      if (!window.axe) (0, eval)(source);
      const r = await window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], resultTypes: ["violations"] });
      return r.violations.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => `${n.html.slice(0, 140)} ${n.any[0]?.message ?? n.all[0]?.message ?? ""}`).join(" | ")}`);
    }, axe);
    equal(found, [], `${state}, ${theme}`);
  }
}

await test("axe: a session: summary, every tab, no match, help, comparison, files", async () => {
  const page = await open(server.link);
  await check(page, "summary");
  await page.keyboard.press("w");
  await settled(page);
  await drawn(page);
  for (const name of ["tensors", "error", "distribution", "elements", "operation", "notes"]) {
    await tab(page, name);
    await check(page, name);
  }
  await page.fill("#search", "nosuchthing");
  await check(page, "nothing found");
  await page.click("#show-all");
  await page.selectOption("#group", "module");
  await check(page, "groups");
  await page.locator("#rows").focus();
  await page.keyboard.press("?");
  await check(page, "help");
  await page.keyboard.press("?");
  await page.click("#open-setup");
  await page.click("#browse-model");
  await page.waitForSelector(".browser li");
  await check(page, "comparison with files");
  await page.context().close();
});

await test("axe: a model alone: summary, operation, weight; a phone", async () => {
  const page = await open(models.link);
  await check(page, "model");
  await page.locator("#rows .row", { hasText: "Conv" }).first().click();
  await check(page, "operation");
  await page.locator("#rows .row", { hasText: "weight" }).first().click();
  await page.waitForSelector("#heat-a");
  await check(page, "weight");
  await page.setViewportSize({ width: 380, height: 740 });
  await check(page, "phone");
  await page.context().close();
});

await test("width: nothing scrolls sideways from 380 px up, in any pane, nor in the comparison", async () => {
  for (const link of [server.link, models.link]) {
    const page = await open(`${link}#value=${encodeURIComponent(culprit)}`);
    for (const width of [380, 480, 760, 800, 1024, 1440, 2560]) {
      await page.setViewportSize({ width, height: width < 800 ? 740 : 900 });
      const panes = width <= 760 ? ["navigator", "inspector", "structure", "source"] : [""];
      for (const pane of panes) {
        if (pane) await page.locator(`.panes [data-pane=${pane}]`).click();
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        ok(wide <= 0, `${wide} px too wide at ${width}, ${pane}`);
      }
      if (width === 380 || width === 1024) {
        await page.click("#open-setup");
        await page.waitForSelector("#setup");
        const inside = await page.locator("#setup-dialog").evaluate((d) => [d.scrollWidth - d.clientWidth, d.getBoundingClientRect().right - innerWidth]);
        ok(inside[0] <= 0 && inside[1] <= 0, `the comparison at ${width}: ${inside}`);
        await page.screenshot({ path: join(shots, `setup-${width}.png`) });
        await page.keyboard.press("Escape");
      }
    }
    await page.context().close();
  }
});

await test("print: verdict, blame and pictures on at most three pages of A4", async () => {
  const page = await open(report(folder, join(dir, "r.html")));
  await page.waitForSelector("#printed canvas", { state: "attached" });
  await page.emulateMedia({ media: "print" });
  const shown = await text(page, "#app");
  for (const part of ["diverged", culprit, "NaN", "output", "A − B"]) ok(shown.includes(part), `${part} is printed`);
  const pdf = (await page.pdf({ format: "A4" })).toString("latin1");
  const pages = (pdf.match(/\/Type\s*\/Page\b(?!s)/g) ?? []).length;
  ok(pages >= 1 && pages <= 3, `${pages} pages`);
  await page.context().close();
});

await test("states: a NaN is counted, never a figure; the server gone and back; a broken page says what to do", async () => {
  const page = await open(server.link);
  const first = page.locator("#rows .row").first();
  equal([await first.getAttribute("data-value"), await first.locator(".score").innerText()], [culprit, "NaN ×1"]);
  await becomes(() => text(page, "#header-coverage"), await text(page, "#coverage"), "what the verdict rests on");
  await page.route(/api\/(stats|slice|setup)/, (r) => r.abort());
  await first.click();
  await page.waitForSelector("#gone:not([hidden])");
  await page.unroute(/api\/(stats|slice|setup)/);
  await page.waitForSelector("#gone", { state: "hidden", timeout: PATIENCE });
  await page.context().close();
  const broken = await open(server.link, undefined, 0, (p) => p.route(/api\/session/, (r) => r.fulfill({ status: 500, contentType: "application/json", body: '{"error": "session.json: format 99 is newer than this plumb"}' })));
  ok((await text(broken, ".state")).includes("another version of plumb"), await text(broken, ".state"));
  ok(await broken.locator("#reload").isVisible(), "a way out");
  await broken.context().close();
});

equal((await server.stop()).code, 0);
equal((await models.stop()).code, 0);
await finish();
