// Pictures of the page in its states against those in pictures/, and planted breaks that must be seen. A picture is a fifth of the screen on a side, each
// cell the mean of 25 pixels: letters and antialiasing vanish, a pane that is broken does not. Prints TAP.
//   PLUMB=build/plumb node tests/web/test_pictures.mjs [-k TEXT] [--bless] [--screenshots DIR]
// --bless writes the pictures anew: look at them before they are committed. Those that differ are left beside the screenshots.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { analyze, browser, dir, drawn, equal, figures, finish, here, idle, make, ok, open, plumb, serve, settled, shots, tab, test } from "./harness.mjs";

const SHRINK = 5, FAR = 40, SHARE = 0.006; // a cell differs by more than FAR of 255 in a channel; a picture, if more than SHARE of its cells do
const bless = process.argv.includes("--bless"), kept = join(here, "pictures");
mkdirSync(kept, { recursive: true });
if (!existsSync("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf")) { console.log("1..0 # SKIP no DejaVu fonts: tools/setup test"); process.exit(0); }

// ---- a picture as cells, made in a page of the browser: no library reads or writes PNG here ----

const desk = await (await browser.newContext()).newPage();
const shrink = (png) => desk.evaluate(async ([data, by]) => {
  const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${data}`)).blob()), c = document.createElement("canvas");
  [c.width, c.height] = [image.width, image.height];
  const g = c.getContext("2d", { willReadFrequently: true });
  g.drawImage(image, 0, 0);
  const from = g.getImageData(0, 0, c.width, c.height), [w, h] = [Math.floor(c.width / by), Math.floor(c.height / by)], to = new ImageData(w, h);
  for (let y = 0; y < h; y++) for (let x = 0; x < w; x++) for (let k = 0; k < 3; k++) {
    let sum = 0;
    for (let j = 0; j < by; j++) for (let i = 0; i < by; i++) sum += from.data[4 * ((y * by + j) * c.width + x * by + i) + k];
    to.data[4 * (y * w + x) + k] = (Math.round(sum / by / by) & 0xf0) | 8; // 16 steps: small files
    to.data[4 * (y * w + x) + 3] = 255;
  }
  [c.width, c.height] = [w, h];
  g.putImageData(to, 0, 0);
  return c.toDataURL("image/png").split(",")[1];
}, [png.toString("base64"), SHRINK]);
const share = (a, b) => desk.evaluate(async ([x, y, far]) => {
  const cells = async (data) => {
    const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${data}`)).blob()), c = document.createElement("canvas");
    [c.width, c.height] = [image.width, image.height];
    const g = c.getContext("2d", { willReadFrequently: true });
    g.drawImage(image, 0, 0);
    return g.getImageData(0, 0, c.width, c.height);
  };
  const [p, q] = [await cells(x), await cells(y)];
  if (p.width !== q.width || p.height !== q.height) return 1;
  let n = 0;
  for (let i = 0; i < p.data.length; i += 4) if ([0, 1, 2].some((k) => Math.abs(p.data[i + k] - q.data[i + k]) > far)) n++;
  return n / (p.width * p.height);
}, [a, b, FAR]);
let most = 0;
async function looks(page, name) {
  await page.mouse.move(0, 0);
  const png = await page.screenshot({ caret: "hide" }), small = await shrink(png), file = join(kept, `${name}.png`);
  if (bless) { writeFileSync(file, Buffer.from(small, "base64")); return; }
  ok(existsSync(file), `${file} not found; --bless writes it`);
  const differs = await share(small, readFileSync(file).toString("base64"));
  most = Math.max(most, differs);
  if (differs <= SHARE) return;
  writeFileSync(join(shots, `${name}.png`), png);
  throw new Error(`${(100 * differs).toFixed(2)} % of ${name} look different (at most ${100 * SHARE} %); see ${join(shots, `${name}.png`)}`);
}

// ---- sessions: their faults are far larger than what a processor rounds differently ----

const model = make("small"), at = (name) => join(dir, name);
const culprit = analyze(model, "jit:inject=scale@Conv:3", at("fault")).blame[0].value;
analyze(model, "jit:inject=nan@Conv:3", at("nan"));
analyze(model, "jit", at("agree"));
spawnSync(plumb, ["analyze", model, "--backend", "jit:inject=crash@Conv:3", "-o", at("crash")], { cwd: dir });
spawnSync(plumb, ["analyze", model, "--backend", "jit:inject=scale@Conv:1", "--backend", "jit", "-o", at("many"), "-q"]);
const wide = { width: 1440, height: 900 }, phone = { width: 380, height: 760 }, chosen = (more = "") => `#value=${encodeURIComponent(culprit)}${more}`;
const still = async (page) => { await idle(page); if (await page.locator("#graph").isVisible()) await drawn(page); await page.evaluate(() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))); };

/** [name, folder or model, size, address, what is done before] */
const STATES = [
  ["summary", "fault", wide], ["summary-dark", "fault", wide, "#theme=dark"], ["summary-1024", "fault", { width: 1024, height: 700 }], ["summary-2560", "fault", { width: 2560, height: 1440 }],
  ["phone-list", "fault", phone], ["phone-inspector", "fault", phone, chosen("&pane=inspector"), settled], ["phone-graph", "fault", phone, "#pane=structure"], ["phone-source", "fault", phone, chosen("&pane=source&theme=dark")],
  ["culprit", "fault", wide, chosen(), settled], ["culprit-dark", "fault", wide, chosen("&theme=dark"), settled], ["culprit-1024", "fault", { width: 1024, height: 700 }, chosen(), settled], ["culprit-2560", "fault", { width: 2560, height: 1440 }, chosen("&theme=dark"), settled],
  ["tab-error", "fault", wide, chosen("&tab=error"), idle], ["tab-distribution", "fault", wide, chosen("&tab=distribution"), idle], ["tab-operation", "fault", wide, chosen("&tab=operation"), idle], ["tab-notes", "fault", wide, chosen("&tab=notes"), idle],
  ["tab-replay", "fault", wide, chosen("&tab=replay"), async (p) => { await settled(p); await p.waitForSelector("#replay-bounds"); }], ["tab-weights", "fault", wide, chosen("&tab=weights"), (p) => p.waitForSelector("#panel-weights[aria-busy=false]")],
  ["unfolded", "fault", wide, "#open=*", (p) => p.click("#fit")], ["traced", "fault", wide, chosen("&open=*&trace=1"), settled], ["path", "fault", wide, chosen("&open=*&path=y"), settled],
  ["modules", "fault", wide, "#group=module"], ["nothing-found", "fault", wide, "#query=zzz"], ["palette", "fault", wide, "#palette=blue"],
  ["enlarged", "fault", wide, chosen(), async (p) => { await settled(p); await p.click("#enlarge"); }],
  ["channels", "fault", wide, chosen(), async (p) => { await settled(p); await p.click("#channel-grid summary"); await p.waitForSelector("#channel-grid[aria-busy=false]"); await p.locator("#channel-grid").scrollIntoViewIfNeeded(); }],
  ["help", "fault", wide, "", (p) => p.keyboard.press("?")],
  ["compare", "fault", wide, "", async (p) => { await p.click("#open-setup"); await p.waitForSelector("#setup"); }],
  ["compare-phone", "fault", phone, "#theme=dark", async (p) => { await p.click("#open-setup"); await p.waitForSelector("#setup"); }],
  ["nan", "nan", wide, "#theme=dark"], ["agree", "agree", wide], ["crash", "crash", wide], ["many", "many", wide, "", null, "#many-table"],
  ["model", model, wide], ["model-weight", model, wide, "#value=blocks.0.conv1.weight", idle], ["model-phone", model, phone, "#theme=dark"],
];

const servers = new Map();
const link = async (of) => {
  if (!servers.has(of)) servers.set(of, await serve([of.endsWith(".onnx") ? of : at(of)]));
  return servers.get(of).link;
};
for (const [name, of, size, hash = "", act = null, table = ""] of STATES)
  await test(`picture: ${name}`, async () => {
    const page = await open((await link(of)) + hash, size);
    if (!table) await still(page);
    await act?.(page);
    if (!table) await still(page);
    await looks(page, name);
    equal(page.problems, []);
    await page.context().close();
  });

// Rules that broke panes once, or could: each must be seen in the picture of a state. A pale tint that is lost is not.
const BREAKS = [
  ["a badge as a block", ".badge { display: block; min-height: 120px; }"], ["no names in the list", ".row .name { display: none; }"], ["no tabs", ".tabs { display: none; }"],
  ["pictures in a column", ".heats { flex-direction: column; }"], ["bars in a column", ".structure .bar { flex-direction: column; }"], ["stretched pictures", "canvas.heat { width: 110px !important; height: 37px !important; }"],
  ["wide text in the list", ".navigator { font-size: 17px; }"],
];
if (!bless)
  await test("picture: planted breaks are seen", async () => {
    for (const [what, rule] of BREAKS) {
      const page = await open((await link("fault")) + chosen(), wide);
      await settled(page);
      await page.evaluate((css) => { const s = new CSSStyleSheet(); s.replaceSync(css); document.adoptedStyleSheets.push(s); }, rule);
      await still(page);
      const differs = await share(await shrink(await page.screenshot({ caret: "hide" })), readFileSync(join(kept, "culprit.png")).toString("base64"));
      figures[what] = Number(differs.toFixed(4));
      ok(differs > SHARE, `${what}: only ${(100 * differs).toFixed(2)} % of the picture differ`);
      await page.context().close();
    }
  });

figures.largest_difference = Number(most.toFixed(4));
for (const s of servers.values()) equal((await s.stop()).code, 0);
await finish();
