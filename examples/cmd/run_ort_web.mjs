#!/usr/bin/env node
// A third-party runtime as a backend: onnxruntime-web (WebAssembly kernels) under node.
//
//   tools/fetch-ort web                                       # once: into .cache/ort-web-1.27.0
//   plumb run MODEL --backend cmd:examples/cmd/run_ort_web.mjs
//
// Called as `run_ort_web.mjs DIR`. Reads DIR/model.onnx and DIR/test_data_set_0/input_N.pb, leaves output_N.pb beside
// them. A TensorProto is small enough to read and write by hand; plumb puts elements into raw_data, and names the input.
// ORT_WEB names another folder with ort.wasm.bundle.min.mjs and ort-wasm-simd-threaded.wasm.
import fs from 'node:fs';
import path from 'node:path';
import url from 'node:url';

const here = path.dirname(url.fileURLToPath(import.meta.url));
const lib = process.env.ORT_WEB ?? path.join(here, '../../.cache/ort-web-1.27.0');

// TensorProto.DataType: name in onnxruntime-web and its array
const TYPES = {
  1: ['float32', Float32Array], 2: ['uint8', Uint8Array], 3: ['int8', Int8Array], 4: ['uint16', Uint16Array],
  5: ['int16', Int16Array], 6: ['int32', Int32Array], 7: ['int64', BigInt64Array], 9: ['bool', Uint8Array],
  10: ['float16', Uint16Array], 11: ['float64', Float64Array], 12: ['uint32', Uint32Array], 13: ['uint64', BigUint64Array],
};
const NUMBERS = Object.fromEntries(Object.entries(TYPES).map(([number, [name]]) => [name, Number(number)]));

function fail(text) {
  console.error(`run_ort_web: ${text}`);
  process.exit(1);
}

// ---- protobuf ----

function readVarint(bytes, at) {
  let value = 0n;
  for (let shift = 0n; ; shift += 7n) {
    const byte = bytes[at++];
    value |= BigInt(byte & 127) << shift;
    if (byte < 128) return [BigInt.asIntN(64, value), at];
  }
}

function* fields(bytes) {
  for (let at = 0; at < bytes.length;) {
    let key, value;
    [key, at] = readVarint(bytes, at);
    const kind = Number(key & 7n);
    if (kind === 0) {
      [value, at] = readVarint(bytes, at);
    } else {
      let size = kind === 1 ? 8n : kind === 5 ? 4n : 0n;
      if (kind === 2) [size, at] = readVarint(bytes, at);
      value = bytes.subarray(at, at + Number(size));
      at += Number(size);
    }
    yield [Number(key >> 3n), value];
  }
}

function readTensor(file) {
  const tensor = { dims: [], type: 0, name: '', raw: new Uint8Array() };
  for (const [field, value] of fields(fs.readFileSync(file))) {
    if (field === 1 && typeof value === 'bigint') tensor.dims.push(Number(value));
    if (field === 1 && typeof value !== 'bigint') {
      for (let at = 0; at < value.length;) {
        const [dim, next] = readVarint(value, at);
        tensor.dims.push(Number(dim));
        at = next;
      }
    }
    if (field === 2) tensor.type = Number(value);
    if (field === 8) tensor.name = new TextDecoder().decode(value);
    if (field === 9) tensor.raw = value;
  }
  if (!(tensor.type in TYPES)) fail(`${file}: elements of type ${tensor.type} are not supported`);
  return tensor;
}

function varint(value) {
  const bytes = [];
  for (let rest = BigInt.asUintN(64, BigInt(value)); ; rest >>= 7n) {
    if (rest < 128n) return [...bytes, Number(rest)];
    bytes.push(Number(rest & 127n) | 128);
  }
}

function writeTensor(file, name, value) {
  if (!(value.type in NUMBERS)) fail(`output '${name}' is of type ${value.type}, which is not supported`);
  const text = Buffer.from(name), data = value.data;
  const head = value.dims.flatMap((dim) => [0x08, ...varint(dim)]);
  head.push(0x10, NUMBERS[value.type], 0x42, ...varint(text.length), ...text, 0x4a, ...varint(data.byteLength));
  fs.writeFileSync(file, Buffer.concat([Buffer.from(head), Buffer.from(data.buffer, data.byteOffset, data.byteLength)]));
}

// ---- the run ----

const dir = process.argv[2] ?? fail('usage: run_ort_web.mjs DIR');
if (!fs.existsSync(path.join(lib, 'ort.wasm.bundle.min.mjs'))) fail(`no onnxruntime-web in ${lib}: tools/fetch-ort web`);
const ort = await import(url.pathToFileURL(path.join(lib, 'ort.wasm.bundle.min.mjs')));
ort.env.wasm.numThreads = 1;
ort.env.wasm.wasmBinary = fs.readFileSync(path.join(lib, 'ort-wasm-simd-threaded.wasm'));

try {
  const session = await ort.InferenceSession.create(fs.readFileSync(path.join(dir, 'model.onnx')), { executionProviders: ['wasm'] });
  const data = path.join(dir, 'test_data_set_0'), feeds = {};
  for (const file of fs.readdirSync(data).filter((f) => /^input_\d+\.pb$/.test(f))) {
    const t = readTensor(path.join(data, file)), [type, array] = TYPES[t.type];
    const copy = t.raw.buffer.slice(t.raw.byteOffset, t.raw.byteOffset + t.raw.byteLength); // aligned
    feeds[t.name] = new ort.Tensor(type, new array(copy), t.dims);
  }
  const results = await session.run(feeds);
  session.outputNames.forEach((name, i) => writeTensor(path.join(data, `output_${i}.pb`), name, results[name]));
} catch (error) {
  fail(error.message ?? error);
}
process.exit(0); // the runtime keeps node alive
