// Runs ruff (its WebAssembly build) over files: node tools/ruff.cjs PACKAGE PYPROJECT FILE…  Exits 1 when it finds something.
const fs = require('fs'), path = require('path');

const [folder, project, ...files] = process.argv.slice(2);
const { Workspace, PositionEncoding } = require(path.resolve(folder, 'ruff_wasm.js'));

// The part of TOML that [tool.ruff] uses: strings, numbers, lists of strings and one table below it.
function settings(text) {
  const found = {}, lines = text.replace(/#.*$/gm, '').split('\n');
  let table = null;
  for (let i = 0; i < lines.length; i++) {
    const head = lines[i].match(/^\[tool\.ruff\.?(.*)\]/);
    if (lines[i].startsWith('[')) table = head ? (head[1] ? head[1].split('.') : []) : null;
    const row = lines[i].match(/^("?)([\w/.-]+)\1 = (.*)$/);
    if (!table || !row) continue;
    let value = row[3];
    while (value.startsWith('[') && !value.includes(']')) value += lines[++i];
    const parsed = JSON.parse(value.replace(/,\s*]/, ']'));
    table.reduce((o, k) => (o[k] = o[k] || {}), found)[row[2]] = parsed;
  }
  return found;
}

const options = settings(fs.readFileSync(project, 'utf8'));
const perFile = (options.lint && options.lint['per-file-ignores']) || {};
if (options.lint) delete options.lint['per-file-ignores'];
const workspace = PositionEncoding ? new Workspace(options, PositionEncoding.Utf16) : new Workspace(options);
let n = 0;
for (const file of files) {
  const ignored = Object.entries(perFile).filter(([name]) => file.endsWith(name)).flatMap(([, codes]) => codes);
  for (const d of workspace.check(fs.readFileSync(file, 'utf8'))) {
    if (d.code && ignored.includes(d.code)) continue;
    console.log(`${file}:${d.start_location.row}:${d.start_location.column}: ${d.code} ${d.message}`);
    n++;
  }
}
process.exit(n ? 1 : 0);
