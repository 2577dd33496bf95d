// The culprit is the first row, with tensors and a picture of its error, whatever the fault, the model and B. A part of the table by default, all of it
// with --full (the models of tools/export-models). Prints TAP.   PLUMB=build/plumb node tests/web/test_culprit.mjs [-k TEXT] [--full]
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { analyze, becomes, dir, equal, figures, finish, has, make, ok, open, plumb, report, root, serve, settled, test, text } from "./harness.mjs";

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

// What PyTorch itself recorded, with save_intermediates of the Python package, which also exports the model.
writeFileSync(join(dir, "torch_b.py"), `import torch, plumb
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.LayerNorm(12)
        self.up = torch.nn.Linear(12, 24)
        self.head = torch.nn.Linear(24, 5)
    def forward(self, x):
        y = torch.relu(self.conv(x))
        y = torch.nn.functional.gelu(self.up(self.norm(y)))
        return torch.softmax(self.head(y).mean(2), -1)
torch.manual_seed(3)
plumb.save_intermediates(Net().eval(), (torch.randn(2, 3, 10, 12),), "torch_b.onnx", "torch_b.safetensors", input_names=["x"], output_names=["y"])
`);
const torch = spawnSync("/usr/bin/python3", ["torch_b.py"], { cwd: dir, env: { ...process.env, PYTHONPATH: join(root, "python"), PLUMB_PROGRAM: plumb }, encoding: "utf8" });
const fromTorch = torch.status === 0;
if (!fromTorch) console.log(`# no PyTorch recording: ${(torch.stderr ?? "").trim().split("\n").pop()}`);

/** The culprit is the first row, and has tensors and a picture of its error. */
async function first(folder, s) {
  const page = await open(report(folder, `${folder}.html`)), row = page.locator("#rows .row").first();
  equal(await row.getAttribute("data-value"), s.blame[0].value, "the first row");
  ok(await row.evaluate((e) => e.classList.contains("blamed")), "and marked as such");
  if (s.verdict === "diverged") ok(!(await page.locator("#verdict-badge.sure").count()), "nothing green over it");
  await row.click();
  await settled(page);
  await becomes(() => text(page, "#point-name"), s.blame[0].value);
  const differs = await page.locator("#heat-d").evaluate((c) => new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer).some((x) => x !== 0xfff7f7f7)); // the colour of no difference
  ok(differs, "a picture of its error");
  equal(page.problems, []);
  await page.context().close();
}

let tried = 0, turn = 0;
if (fromTorch)
  for (const kind of full ? ALL : ["scale", "one-element"])
    for (const op of full ? ["Conv", "MatMul", "Relu"] : ["Conv"])
      await test(`culprit: ${kind} in ${op}, B is recorded by PyTorch`, async () => {
        const folder = join(dir, `torch-${kind}-${op}`), s = analyze(join(dir, "torch_b.onnx"), `jit:inject=${kind}@${op}:1`, folder, ["--reference", join(dir, "torch_b.safetensors")]);
        if (!s.blame.length) { ok(s.verdict === "agree", `${s.verdict} without blame: ${s.reason}`); console.log(`# torch ${kind} ${op}: the fault changes nothing here (agree)`); return; }
        tried++;
        await first(folder, s);
      });

// Kinds that leave no numbers: the page says what happened, names the operation, and shows a way out.
for (const [kind, says] of [["crash", "crashed"], ["hang", "timed out"], ["compile-error", "compile error"]])
  await test(`culprit: ${kind}: named, first in the list and in the graph, with a way out`, async () => {
    const folder = join(dir, `dead-${kind}`), s = analyze(models.small[0], `jit:inject=${kind}@Conv:2`, folder, ["--timeout", "5"], 4);
    const server = await serve([folder]), page = await open(server.link), row = page.locator("#rows .row").first();
    await becomes(() => text(page, "#verdict-badge"), "failed");
    await has(() => text(page, "#run-failed"), says);
    equal([await row.getAttribute("data-value"), await text(page, "#failed-at")], [s.blame[0].value, s.blame[0].value], "the operation");
    equal(s.blame[0].value, "/blocks.0/conv2/Conv_output_0", "where the fault was planted");
    await page.click("#failed-at");
    await has(() => text(page, "#inspector-head"), "culprit");
    ok(await page.locator("#minify").isVisible() && await page.locator("#repro").isVisible() && await page.locator("#open-setup").isVisible(), "ways out");
    equal(page.problems, []);
    await page.context().close();
    await server.stop();
  });

for (const [name, [model, op]] of Object.entries(models))
  for (const kind of kinds)
    for (const b of full ? [SIDES[turn++ % 3]] : kind === "nan" ? ["eager", "recording"] : ["eager"])
      await test(`culprit: ${kind} in ${op} of ${name}, B is ${b}`, async () => {
        const folder = join(dir, `${name}-${kind}-${b}`);
        const s = analyze(model, `jit:inject=${kind}@${op}:1`, folder, against(b, name, model));
        if (!s.blame.length) { ok(s.verdict === "agree", `${s.verdict} without blame: ${s.reason}`); console.log(`# ${name} ${kind}: the fault changes nothing here (agree)`); return; }
        tried++;
        await first(folder, s);
      });
figures.sessions_with_blame = tried;
await test("culprit: enough sessions had one", async () => { ok(tried >= (full && Object.keys(models).length === 6 ? 60 : 1) || process.argv.includes("-k"), `${tried} sessions with blame`); });

await finish();
