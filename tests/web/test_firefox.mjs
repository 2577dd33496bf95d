// The main flow in Firefox (Debian's firefox-esr, over WebDriver BiDi): a model, its comparison, the culprit with its pictures, a report from a file, a
// phone's width. Prints TAP.   PLUMB=build/plumb node tests/web/test_firefox.mjs [-k TEXT] [--screenshots DIR]
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { analyze, becomes, dir, equal, finish, make, ok, report, root, serve, shots, test } from "./harness.mjs";

const program = "/usr/bin/firefox-esr", { _bidiFirefox } = createRequire(join(root, "web/"))("playwright-core");
if (!existsSync(program)) {
  console.log(`1..0 # SKIP no ${program}: tools/setup test`);
  process.exit(0);
}
const firefox = await _bidiFirefox.launch({ executablePath: program, headless: true, timeout: 120000 });
const WAIT = { timeout: 60000 };
async function open(url, size = { width: 1440, height: 900 }) {
  const page = await (await firefox.newContext({ viewport: size })).newPage();
  page.problems = [];
  page.on("pageerror", (e) => page.problems.push(String(e)));
  page.on("console", (m) => { if (m.type() === "error") page.problems.push(m.text()); });
  await page.goto(url);
  await page.waitForSelector("#app[data-ready]", WAIT);
  return page;
}
const painted = (page, id) => page.locator(id).evaluate((c) => new Set(new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer)).size);
/** The culprit is the first row; its pictures and its place in the graph are drawn. */
async function culprit(page, value) {
  const first = page.locator("#rows .row").first();
  equal(await first.getAttribute("data-value"), value, "the first row");
  await first.click();
  await page.waitForFunction(() => document.querySelector(".inspector").getAttribute("aria-busy") === "false" && document.getElementById("heat-d"), null, WAIT);
  await becomes(() => page.locator("#point-name").innerText(), value);
  for (const id of ["#heat-a", "#heat-d", "#heat-b"]) ok((await painted(page, id)) > (id === "#heat-d" ? 1 : 4), `${id} has a picture`); // a NaN alone: two colours
  await page.waitForFunction(() => document.getElementById("graph").getAttribute("aria-busy") === "false", null, WAIT);
  ok((await painted(page, "#graph")) > 4, "the graph is drawn");
}

await test("firefox: from a model to the culprit's tensors, in the page", async () => {
  const server = await serve([make("small")]), page = await open(server.link);
  ok(Number(await page.locator("#graph").getAttribute("data-items")) > 2, "the graph of the model");
  await page.click("#open-setup");
  await page.waitForSelector("#setup-dialog[open]");
  await page.fill("#set-backend", "jit:inject=scale@Conv:2");
  await page.click("#compare");
  await page.waitForSelector("#verdict-badge.wrong", { timeout: 120000 });
  await page.waitForSelector("#app[data-ready]", WAIT);
  await culprit(page, await page.locator("#rows .row").first().getAttribute("data-value"));
  await becomes(() => page.locator("#point-verdict").innerText(), "culprit");
  for (const name of ["error", "distribution", "elements", "operation"]) {
    await page.click(`#tab-${name}`);
    ok((await page.locator(`#panel-${name}`).innerText()).length > 20, `tab ${name}`);
  }
  await page.fill("#search", "op=Relu");
  ok((await page.locator("#rows .row").count()) >= 1, "search");
  equal(page.problems, []);
  await page.screenshot({ path: join(shots, "firefox.png") }); // adds a style to hide the caret, which the policy blocks: after the check
  await page.context().close();
  equal((await server.stop()).code, 0);
});

await test("firefox: a report opens from a file; keys; nothing scrolls sideways on a phone", async () => {
  const folder = join(dir, "s"), s = analyze(make("small"), "jit:inject=nan@Conv:1", folder), page = await open(report(folder, join(dir, "r.html")));
  await culprit(page, s.blame[0].value);
  await page.locator("#rows").focus();
  await page.keyboard.press("j");
  ok((await page.locator("#point-name").innerText()) !== s.blame[0].value, "j: the next row");
  await page.keyboard.press("c");
  await becomes(() => page.locator("#point-name").innerText(), s.blame[0].value, "c: the culprit");
  await page.setViewportSize({ width: 390, height: 844 });
  for (const pane of ["navigator", "inspector", "structure", "source"]) {
    await page.locator(`.panes [data-pane=${pane}]`).click();
    ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0, pane);
  }
  equal(page.problems, []);
  await page.context().close();
});

await firefox.close();
await finish();
