#!/usr/bin/env node
// Runs model.onnx with ONNX Runtime. Exits with 1 if the bug shows, 0 if not, 2 if it cannot run here.
// Needs: npm install onnxruntime-node
'use strict';
const LEVEL = "all", THREADS = 0;
const EXTRA = {};
const PROVIDERS = ["webgpu", "cpu"];
const LIMITS = [4.76837158203125e-07];  // half of the error observed, by output
const MUST_FAIL = false;  // the bug is an error of ONNX Runtime
const N_INPUTS = 1;
const fs = require('fs');
const path = require('path');
let ort;
try {
  ort = require('onnxruntime-node');
} catch (error) {
  console.error('cannot run:', error.message.split('\n')[0], '(npm install onnxruntime-node)');
  process.exit(2);
}

// TensorProto by hand: dims, data_type and raw_data are all that the files use.
const types = {1: ['float32', Float32Array], 2: ['uint8', Uint8Array], 3: ['int8', Int8Array], 4: ['uint16', Uint16Array],
  5: ['int16', Int16Array], 6: ['int32', Int32Array], 7: ['int64', BigInt64Array], 9: ['bool', Uint8Array],
  10: ['float16', Uint16Array], 11: ['float64', Float64Array], 12: ['uint32', Uint32Array], 13: ['uint64', BigUint64Array]};

function varint(bytes, at) {
  let value = 0n, shift = 0n, byte;
  do { byte = bytes[at++]; value |= BigInt(byte & 127) << shift; shift += 7n; } while (byte > 127);
  return [value, at];
}

function load(name) {
  const bytes = fs.readFileSync(path.join(__dirname, 'test_data_set_0', name));
  const dims = [];
  let at = 0, type = 1, raw = new Uint8Array(0), key, value;
  while (at < bytes.length) {
    [key, at] = varint(bytes, at);
    const field = Number(key >> 3n), wire = Number(key & 7n);
    [value, at] = varint(bytes, at);
    if (wire === 2) {
      const inner = bytes.subarray(at, at + Number(value));
      at += Number(value);
      if (field === 9) raw = new Uint8Array(inner);
      if (field === 1) for (let i = 0; i < inner.length;) { [value, i] = varint(inner, i); dims.push(Number(value)); }
    } else if (field === 1) { dims.push(Number(value)); } else if (field === 2) { type = Number(value); }
  }
  if (!types[type]) throw new Error(`${name}: element type ${type} is not known to this script`);
  const [word, array] = types[type];
  return new ort.Tensor(word, new array(raw.buffer, 0, raw.length / array.BYTES_PER_ELEMENT), dims);
}

function number(tensor, i) {
  const x = tensor.data[i];
  if (tensor.type !== 'float16' || !(tensor.data instanceof Uint16Array)) return Number(x);
  const sign = x & 0x8000 ? -1 : 1, exponent = (x >> 10) & 31, fraction = x & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -24 * fraction);
}

async function main() {
  const options = {graphOptimizationLevel: LEVEL, intraOpNumThreads: THREADS, interOpNumThreads: 1,
    executionProviders: PROVIDERS, extra: EXTRA};
  const inputs = Array.from({length: N_INPUTS}, (_, i) => load(`input_${i}.pb`));
  const expected = LIMITS.map((_, i) => load(`output_${i}.pb`));
  let session, outputs, again;
  try {
    session = await ort.InferenceSession.create(path.join(__dirname, 'model.onnx'), options);
    const feed = {};
    session.inputNames.forEach((name, i) => { feed[name] = inputs[i]; });
    outputs = await session.run(feed);
    again = await session.run(feed);
  } catch (error) {
    console.log('ONNX Runtime fails:', error.message);
    if (!MUST_FAIL) console.error('cannot run: the bug is in the values, and there are none');
    return MUST_FAIL ? 1 : 2;
  }
  let shows = false;
  session.outputNames.forEach((name, i) => {
    const got = outputs[name], want = expected[i];
    if (String(got.dims) !== String(want.dims)) {
      console.log(`output ${name}: shape [${got.dims}], expected [${want.dims}]`);
      shows = true;
      return;
    }
    let off = 0, wrong = 0, moved = 0;
    for (let k = 0; k < got.data.length; k++) {
      const a = number(got, k), b = number(want, k), c = number(again[name], k);
      if (Number.isFinite(a) !== Number.isFinite(b)) wrong++;
      else if (Number.isFinite(a)) off = Math.max(off, Math.abs(a - b));
      if (!Object.is(a, c)) moved++;
    }
    console.log(`output ${name}: off by up to ${off} (limit ${LIMITS[i]}), ${wrong} elements are non-finite on one side only, ` +
                `${moved} differ in a second run`);
    shows = shows || off > LIMITS[i] || wrong > 0 || moved > 0;
  });
  return shows ? 1 : 0;
}

main().then((code) => process.exit(code), (error) => {
  console.error('cannot run:', error.message);
  process.exit(2);
});
