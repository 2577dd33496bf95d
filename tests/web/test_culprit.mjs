// The culprit is the first row, with tensors and a picture of its error, whatever the fault, the model and B. A part of the table by default, all of it
// with --full (the models of tools/export-models). Prints TAP.   PLUMB=build/plumb node tests/web/test_culprit.mjs [-k TEXT] [--full]
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import { analyze, dir, equal, figures, finish, make, ok, open, plumb, report, root, settled, test, text } from "./harness.mjs";

const full = process.argv.includes("--full");
const exported = (name) => join(root, ".cache/models/torch", `${name}.onnx`);
// Every kind that changes numbers the same way in each run.
const ALL = ["scale", "offset", "nan", "sign", "accuracy", "transpose", "shift", "saturate", "channel", "tail", "zero", "one-element", "bf16"], SIDES = ["eager", "recording", "model"];
const models = { small: [make("small"), "Conv"] };
if (full) for (const [name, op] of [["resnet18", "Conv"], ["mobilenet_v3_small", "Conv"], ["efficientnet_b0", "Conv"], ["encoder", "MatMul"], ["recurrent", "LSTM"]]) if (existsSync(exported(name))) models[name] = [exported(name), op];
const kinds = full ? ALL : ["scale", "nan", "sign"];

/** A recording of the model made by eager: the reference of those who have no model as B. */
function recorded(name, model) {
  const file = join(dir, `${name}.safetensors`);
  if (!existsSync(file)) equal(spawnSync(plumb, ["record", model, "-o", file]).status, 0, `record ${name}`);
  return file;
}

/** What B is: a backend, a recording, or another file with the same model. */
function against(b, name, model) {
  if (b === "recording") return ["--reference", recorded(name, model)];
  if (b === "eager") return [];
  const copy = join(dir, `${name}-b.onnx`);
  copyFileSync(model, copy);
  return ["--reference", copy];
}

let tried = 0, turn = 0;
for (const [name, [model, op]] of Object.entries(models))
  for (const kind of kinds)
    for (const b of full ? [SIDES[turn++ % 3]] : kind === "nan" ? ["eager", "recording"] : ["eager"])
      await test(`culprit: ${kind} in ${op} of ${name}, B is ${b}`, async () => {
        const folder = join(dir, `${name}-${kind}-${b}`);
        const s = analyze(model, `jit:inject=${kind}@${op}:1`, folder, against(b, name, model));
        if (!s.blame.length) { ok(s.verdict === "agree", `${s.verdict} without blame: ${s.reason}`); console.log(`# ${name} ${kind}: the fault changes nothing here (agree)`); return; }
        tried++;
        const page = await open(report(folder, `${folder}.html`)), first = page.locator("#rows .row").first();
        equal(await first.getAttribute("data-value"), s.blame[0].value, "the first row");
        ok(await first.evaluate((e) => e.classList.contains("blamed")), "and marked as such");
        if (s.verdict === "diverged") ok(!(await page.locator("#verdict-badge.sure").count()), "nothing green over it");
        await first.click();
        await settled(page);
        equal(await text(page, "#point-name"), s.blame[0].value);
        const differs = await page.locator("#heat-d").evaluate((c) => new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer).some((x) => x !== 0xfff7f7f7)); // the colour of no difference
        ok(differs, "a picture of its error");
        equal(page.problems, []);
        await page.context().close();
      });
figures.sessions_with_blame = tried;
await test("culprit: enough sessions had one", async () => { ok(tried >= (full && Object.keys(models).length === 6 ? 60 : 1) || process.argv.includes("-k"), `${tried} sessions with blame`); });

await finish();
