// What the page is given: a session, its graph, and figures and slices of tensors, from the server or inlined into
// the file. docs/view-server.md describes all of it.

export interface Side {
  dtype: string;
  shape: number[];
  strides: number[];
  offset: number;
  flags: string[];
  hash: string | null;
  kept: boolean;
}
export interface Metric {
  name: string;
  long: string;
  unit: string;
  higher: boolean;
}
export interface Blame {
  node: string;
  op: string;
  value: string;
  members: string[];
  kind: string;
  where: string;
  q: number | null;
  effect: number | null;
  score: number | null;
  reason: string;
  module: string;
  source: string;
}
/** What the verdict rests on. */
export interface Coverage {
  outputs: number;
  outputs_compared: number;
  verified: number;
  unverified: number;
  unpaired: number;
}
/** A call of the source framework that its exporter lost. */
export interface LostCall {
  status: string;
  op: string;
  module: string;
  file: string;
  line: number;
  source: string;
}
export interface Point {
  index: number;
  value: string;
  node: string;
  op: string;
  module: string;
  source: string;
  counterpart: string;
  counterpart_op: string; // as the recording of B names it
  paired_by: string;
  confidence: number | null;
  relation: string;
  layout: string;
  input: boolean;
  output: boolean;
  accepted: boolean;
  match: boolean;
  measured: boolean;
  zero: boolean;
  fails: boolean; // an output beyond its bound
  model_wrong: boolean;
  nonfinite: [number, number] | null; // NaN, Inf on one side only
  metadata_reason: string;
  a: Side | null;
  b: Side | null;
  class: string | null;
  precision: string | null;
  metrics: (number | null)[];
  colours: string;
  limits: ([number, number] | null)[];
  propagated: number | null;
  local: number | null;
  amplified: number | null;
  q: number | null;
  excuse: string;
  verdict: string;
  reason: string;
  sample: number;
  left_out: number;
  worst: number;
  limits_from: string;
  blame: Blame | null;
}
export interface Run {
  backend: string;
  spec: string;
  version: string;
  path: string;
  failure: string;
  signal: number;
}
export interface Session {
  plumb: string;
  kind: "session" | "model"; // model: nothing was compared yet
  verdict: string;
  at_fault: string;
  coverage: Coverage | null;
  lost_calls: LostCall[];
  reason: string;
  created: string;
  model: { path: string; hash: string; nodes: number };
  a: Run;
  b: Run;
  table?: string; // many or generate: one of several sessions
  observer_effect: boolean;
  observer_note: string;
  samples: number;
  metric: string;
  profile: string;
  tol: number | null;
  first_divergence: string | null;
  replayed: number;
  unreplayed: number;
  peak_rss: number;
  metrics: Metric[];
  verdicts: Record<string, string>;
  blame: Blame[];
  left_over: { value: string; op: string; reason: string; expected: boolean }[];
  notes: string[];
  timing: [string, number][];
  points: Point[];
  has_reference: boolean;
}
export type GraphOf = "given" | "executed" | "reference";
export interface GraphNode {
  index: number;
  op: string;
  domain: string;
  name: string;
  module: string;
  file: string;
  line: number;
  code: string;
  inputs: number[];
  outputs: number[];
  attrs: [string, string][];
}
/** stands_for: of the graph that A executes, which value of the model each of its values carries. */
export interface Graph {
  stands_for?: (string | null)[];
  name: string;
  values: string[];
  types: string[];
  weights: Set<number>;
  inputs: number[];
  outputs: number[];
  nodes: GraphNode[];
  producer: Map<string, GraphNode>;
}

/** null: no element is finite. */
export interface SideStats {
  min: number | null;
  max: number | null;
  mean: number | null;
  std: number | null;
  nan: number;
  inf: number;
  zero: number;
}
export interface Stats {
  dims: number[];
  n: number;
  seen: number;
  why: string;
  gold?: boolean; // b is the fp64 run, because B has no counterpart
  replay?: { least: number; most: number; beyond: number }; // b is the replay: its bounds, and the elements beyond them
  a?: SideStats;
  b?: SideStats;
  lo: number;
  hi: number;
  bins_a?: number[];
  bins_b?: number[];
  decades?: number[];
  decade_first?: number;
  equal?: number;
  quantiles?: Record<string, number>;
  worst?: { index: number[]; a: number; b: number; whole?: string[] }[]; // whole: A, B, A - B, digit by digit
  channel_axis?: number;
  channels?: number[];
  profiles?: Profile[]; // of the other axes
  scatter?: number[];
}
/** The largest error along an axis; of a long one, group i holds the indices with floor(index * groups / dim) = i. */
export interface Profile {
  axis: number;
  dim: number;
  largest: number[];
}
export interface SliceRequest {
  axes: [number, number];
  index: number[];
  at: [number, number];
  of: [number, number];
  mode: string;
  max: number;
}
export interface Picture {
  rows: number;
  cols: number;
  of: [number, number];
  at: [number, number];
  axes: [number, number];
  index: number[];
  dims: number[];
  mode: string;
  sampled: boolean;
  a: ArrayLike<number> | null;
  b: ArrayLike<number> | null;
  d: ArrayLike<number> | null;
  edges?: number[][]; // of a part of another picture: where its rows and columns begin, and the end
  whole?: Record<string, ArrayLike<bigint>>; // the same of 64-bit integers, digit by digit
}
export interface SourceText {
  first: number;
  line: number;
  lines: string[];
}

/** The tensors of a sync point, by its number, or a weight of the model, by its name. */
export type TensorOf = number | string | Replayed;
/** A sync point against the replay of its operation. */
export interface Replayed {
  replay: number;
}
/** Two that ask for the same have one key. */
export const keyOf = (of: TensorOf): string =>
  typeof of === "number" ? `${of}` : typeof of === "string" ? `weight ${of}` : `replay ${of.replay}`;

export interface Source {
  readonly live: boolean; // a server is behind it
  session(): Promise<Session | null>;
  graph(of?: GraphOf): Promise<Graph | null>;
  stats(of: TensorOf): Promise<Stats>;
  slice(of: TensorOf, request: SliceRequest | null): Promise<Picture>;
  source(file: string, line: number): Promise<SourceText>;
}

/** "inf", "-inf", "nan" stand for numbers that JSON lacks. */
export function num(x: unknown): number | null {
  if (x === "inf") return Infinity;
  if (x === "-inf") return -Infinity;
  if (x === "nan") return NaN;
  return typeof x === "number" ? x : null;
}
const must = (x: unknown): number => num(x) ?? NaN;

/** What all points of a session share: where each column is, and the tables that their numbers mean. */
interface Tables {
  at: Record<string, number>;
  sides: any[][];
  limits: ([number, number] | null)[][];
  blamed: Map<string, Blame>;
}

/** A point as it came, read when it is asked for: 100,000 of them must not be unpacked before the first paint. */
class Row implements Point {
  // What sorting, colouring and searching read of every point, looked up once.
  readonly value: string;
  readonly op: string;
  readonly module: string;
  readonly class: string | null;
  readonly metrics: (number | null)[];
  readonly colours: string;
  readonly verdict: string;
  readonly nonfinite: [number, number] | null;
  private readonly flags: number;
  constructor(
    private row: any[],
    private t: Tables,
    readonly index: number,
  ) {
    const { at } = t;
    this.value = row[at.value];
    this.op = row[at.op];
    this.module = row[at.module];
    this.class = row[at.class];
    this.metrics = row[at.metrics];
    this.colours = row[at.colours];
    this.verdict = row[at.verdict];
    this.nonfinite = row[at.nonfinite] ?? null;
    this.flags = row[at.flags];
  }
  private get(column: string): any {
    return this.row[this.t.at[column]];
  }
  private side(x: unknown): Side | null {
    // a row of the table and a hash
    if (!Array.isArray(x)) return null;
    const [dtype, shape, strides, offset, flags, kept] = this.t.sides[x[0]];
    return { dtype, shape, strides, offset, flags, hash: x[1], kept };
  }
  get node(): string {
    return this.get("node");
  }
  get source(): string {
    return this.get("source");
  }
  get counterpart(): string {
    return this.get("counterpart") ?? this.value;
  }
  get paired_by(): string {
    return this.get("paired_by");
  }
  get confidence(): number | null {
    return num(this.get("confidence"));
  }
  get relation(): string {
    return this.get("relation");
  }
  get layout(): string {
    return this.get("layout");
  }
  get input(): boolean {
    return !!(this.flags & 1);
  }
  get output(): boolean {
    return !!(this.flags & 2);
  }
  get accepted(): boolean {
    return !!(this.flags & 4);
  }
  get match(): boolean {
    return !!(this.flags & 8);
  }
  get measured(): boolean {
    return !!(this.flags & 16);
  }
  get zero(): boolean {
    return !!(this.flags & 32);
  } // the reference is 0 everywhere, A is not
  get fails(): boolean {
    return !!(this.flags & 64);
  }
  get model_wrong(): boolean {
    return !!(this.flags & 128);
  }
  get counterpart_op(): string {
    return this.get("counterpart_op") ?? "";
  }
  get metadata_reason(): string {
    return this.get("metadata_reason");
  }
  get a(): Side | null {
    return this.side(this.get("a"));
  }
  get b(): Side | null {
    return this.side(this.get("b"));
  }
  get precision(): string | null {
    return this.get("precision");
  }
  get limits(): ([number, number] | null)[] {
    return this.t.limits[this.get("limits")];
  }
  get propagated(): number | null {
    return num(this.get("propagated"));
  }
  get local(): number | null {
    return num(this.get("local"));
  }
  get amplified(): number | null {
    return num(this.get("amplified"));
  }
  get q(): number | null {
    return num(this.get("q"));
  }
  get excuse(): string {
    return this.get("excuse");
  }
  get reason(): string {
    return this.get("reason");
  }
  get sample(): number {
    return this.get("sample");
  }
  get left_out(): number {
    return this.get("left_out");
  }
  get worst(): number {
    return this.get("worst");
  }
  get limits_from(): string {
    return this.get("limits_from");
  }
  get blame(): Blame | null {
    return this.t.blamed.get(this.value) ?? null;
  }
}

export function readSession(raw: any): Session | null {
  if (!raw) return null;
  const t: Tables = {
    at: Object.fromEntries((raw.columns as string[]).map((c, i) => [c, i])),
    sides: raw.sides,
    blamed: new Map(),
    limits: (raw.limits as any[][]).map((row) =>
      row.map((l): [number, number] | null => (l ? [must(l[0]), must(l[1])] : null)),
    ),
  };
  const blame: Blame[] = raw.blame.map((b: any) => ({ ...b, q: num(b.q), effect: num(b.effect), score: num(b.score) }));
  for (const b of blame) for (const v of [b.value, ...b.members]) if (!t.blamed.has(v)) t.blamed.set(v, b);
  const rows: any[][] = raw.points,
    at = t.at.metrics,
    points: Point[] = new Array(rows.length);
  for (let i = 0; i < rows.length; i++) {
    const m = rows[i][at];
    for (let k = 0; k < m.length; k++) if (typeof m[k] === "string") m[k] = num(m[k]);
    points[i] = new Row(rows[i], t, i);
  }
  return {
    ...raw,
    kind: "session",
    at_fault: raw.at_fault ?? "",
    coverage: raw.coverage ?? null,
    lost_calls: raw.lost_calls ?? [],
    tol: num(raw.tol),
    blame,
    points,
  };
}

export function readGraph(raw: any): Graph | null {
  if (!raw) return null;
  const nodes: GraphNode[] = raw.nodes.map((n: any[], index: number) => ({
    index,
    op: n[0],
    domain: n[1],
    name: n[2],
    module: n[3],
    file: n[4],
    line: n[5],
    code: n[6],
    inputs: n[7],
    outputs: n[8],
    attrs: n[9],
  }));
  const producer = new Map<string, GraphNode>();
  for (const n of nodes) for (const v of n.outputs) if (v >= 0) producer.set(raw.values[v], n);
  return { ...raw, weights: new Set(raw.weights), nodes, producer };
}

function readStats(raw: any): Stats {
  const side = (s: any): SideStats | undefined =>
    s && { ...s, min: num(s.min), max: num(s.max), mean: num(s.mean), std: num(s.std) };
  const quantiles: Record<string, number> = {};
  for (const [k, v] of Object.entries(raw.quantiles ?? {})) quantiles[k] = must(v);
  return {
    ...raw,
    a: side(raw.a),
    b: side(raw.b),
    lo: must(raw.lo),
    hi: must(raw.hi),
    quantiles,
    worst: raw.worst?.map((w: any) => ({ index: w.index, a: must(w.a), b: must(w.b), whole: w.whole })),
    channels: raw.channels?.map(must),
    profiles: raw.profiles?.map((p: any) => ({ axis: p.axis, dim: p.dim, largest: p.largest.map(must) })),
    scatter: raw.scatter?.map(must),
  };
}

/** x - y as the comparison sees it: equal infinities and NaN on both sides differ by nothing. */
export const difference = (x: number, y: number): number => (x === y || (x !== x && y !== y) ? 0 : x - y);

export function readPicture(buffer: ArrayBuffer): Picture {
  const view = new DataView(buffer);
  if (buffer.byteLength < 8 || view.getUint32(0) !== 0x504c534c) throw new Error("not a slice");
  const n = view.getUint32(4, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, n)));
  const cells = head.rows * head.cols;
  const parts: Record<string, ArrayLike<number>> = {},
    whole: Record<string, ArrayLike<bigint>> = {};
  const isWhole = head.type === "i64" || head.type === "u64";
  let offset = 8 + n;
  for (const side of head.sides as string) {
    if (isWhole)
      whole[side] =
        head.type === "u64" ? new BigUint64Array(buffer, offset, cells) : new BigInt64Array(buffer, offset, cells);
    parts[side] = isWhole
      ? Float64Array.from(whole[side], Number)
      : head.type === "f64"
        ? new Float64Array(buffer, offset, cells)
        : new Float32Array(buffer, offset, cells);
    offset += cells * (head.type === "f32" ? 4 : 8);
    if (offset % 8 && head.type !== "f32") throw new Error("misaligned slice");
  }
  if (whole.a && whole.b) {
    // a difference of doubles would lose what is beyond 2^53
    whole.d = Array.from(whole.a, (x, i) => x - whole.b[i]);
    parts.d = Float64Array.from(whole.d, Number);
  } else if (parts.a && parts.b && !parts.d) {
    const d = new Float64Array(cells);
    for (let i = 0; i < cells; i++) d[i] = difference(parts.a[i], parts.b[i]);
    parts.d = d;
  }
  return { ...head, a: parts.a ?? null, b: parts.b ?? null, d: parts.d ?? null, whole: isWhole ? whole : undefined };
}

/** The part of a stored picture that a request asks for, as near as it goes. */
function crop(p: Picture, r: SliceRequest): Picture {
  const r0 = Math.floor(((r.at[0] - p.at[0]) * p.rows) / p.of[0]),
    c0 = Math.floor(((r.at[1] - p.at[1]) * p.cols) / p.of[1]);
  const rows = Math.max(1, Math.min(p.rows - r0, Math.round((r.of[0] * p.rows) / p.of[0])));
  const cols = Math.max(1, Math.min(p.cols - c0, Math.round((r.of[1] * p.cols) / p.of[1])));
  if (rows === p.rows && cols === p.cols) return p;
  const pick = <T>(x: ArrayLike<T>): T[] =>
    Array.from({ length: rows * cols }, (_, i) => x[(r0 + Math.floor(i / cols)) * p.cols + c0 + (i % cols)]);
  const cut = (x: ArrayLike<number> | null): Float64Array | null => x && Float64Array.from(pick(x));
  const whole = p.whole && Object.fromEntries(Object.entries(p.whole).map(([side, x]) => [side, pick(x)]));
  const edges = (
    [
      [r0, rows],
      [c0, cols],
    ] as const
  ).map(([from, n], k) =>
    Array.from({ length: n + 1 }, (_, i) => p.at[k] + Math.floor(((from + i) * p.of[k]) / (k ? p.cols : p.rows))),
  );
  const at = edges.map((e) => e[0]) as [number, number],
    of = edges.map((e) => e[e.length - 1] - e[0]) as [number, number];
  return { ...p, rows, cols, at, of, edges, a: cut(p.a), b: cut(p.b), d: cut(p.d), whole };
}

class Inlined implements Source {
  readonly live = false;
  private pictures = new Map<string, Picture[]>();
  private tensors: any = null; // parsed when first asked for
  constructor(private data: any) {}
  async session(): Promise<Session | null> {
    return readSession(this.data.session);
  }
  async graph(of: GraphOf = "given"): Promise<Graph | null> {
    if (of === "executed") throw new Error("the graph that A executed is not in a report; use `plumb view`");
    return readGraph(of === "given" ? this.data.graph : this.data.reference);
  }
  private entry(point: TensorOf): any {
    this.tensors ??= JSON.parse(document.getElementById("tensor-data")?.textContent || "{}");
    if (typeof point === "string") throw new Error("weights are not in a report; use `plumb view`");
    const entry = typeof point === "number" ? this.tensors[point] : this.tensors[point.replay]?.replay;
    if (!entry && typeof point !== "number") throw new Error("the replay is not in the report");
    if (!entry)
      throw new Error("the tensors of this value are not in the report (plumb report --max-size, or plumb view)");
    return entry;
  }
  async stats(point: TensorOf): Promise<Stats> {
    return readStats(this.entry(point).stats);
  }
  async slice(point: TensorOf, request: SliceRequest | null): Promise<Picture> {
    let stored = this.pictures.get(keyOf(point));
    if (!stored) {
      stored = (this.entry(point).slices as string[]).map((text) => {
        const raw = atob(text),
          bytes = new Uint8Array(raw.length);
        for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
        return readPicture(bytes.buffer);
      });
      this.pictures.set(keyOf(point), stored);
    }
    if (!request) return stored[0];
    const same = stored.filter(
      (p) =>
        p.axes.join() === request.axes.join() &&
        p.index.every((x, i) => request.axes.includes(i) || x === request.index[i]),
    );
    const fits = (p: Picture): boolean =>
      [0, 1].every((i) => request.at[i] >= p.at[i] && request.at[i] + request.of[i] <= p.at[i] + p.of[i]);
    const best = same.filter(fits).sort((x, y) => Number(y.mode === "exact") - Number(x.mode === "exact"))[0];
    if (!best) throw new Error("this slice is not in the report; use `plumb view`");
    return crop(best, request);
  }
  async source(): Promise<SourceText> {
    throw new Error("a report has no source files");
  }
}

const tensor = (of: TensorOf): string =>
  typeof of === "number"
    ? `point=${of}`
    : typeof of === "string"
      ? `weight=${encodeURIComponent(of)}`
      : `point=${of.replay}&against=replay`;

class Server implements Source {
  readonly live = true;
  readonly token = new URLSearchParams(location.search).get("token") ?? "";
  private serial = 0; // of the session that this page is of; the server may show another one by now
  private of(path: string): string {
    return this.serial ? `${path}${path.includes("?") ? "&" : "?"}session=${this.serial}` : path;
  }
  // 428: it would start a compiler or a runtime, which a stranger's session must not do unasked.
  private mayRun = false;
  async get(path: string): Promise<Response> {
    const ask = (p: string) => this.reach(this.of(p), { headers: { "X-Plumb-Token": this.token }, cache: "no-store" });
    let answer = await ask(path);
    if (answer.status === 428 && (this.mayRun ||= confirm((await answer.clone().json()).error)))
      answer = await ask(`${path}${path.includes("?") ? "&" : "?"}run=yes`);
    if (!answer.ok)
      throw new Error((await answer.json().catch(() => ({}))).error ?? `${answer.status} ${answer.statusText}`);
    return answer;
  }
  /** Told when the server cannot be reached, and when it can again. */
  onreach: (there: boolean) => void = () => {};
  private async reach(path: string, request: RequestInit): Promise<Response> {
    try {
      const answer = await fetch(path, request);
      this.onreach(true);
      return answer;
    } catch (e) {
      if ((e as Error).name !== "AbortError") this.onreach(false);
      throw new Error("plumb view does not answer: it has ended, or the network is down");
    }
  }
  async post(path: string, body: unknown): Promise<any> {
    const answer = await this.reach(this.of(path), {
      method: "POST",
      headers: { "X-Plumb-Token": this.token, "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    const result = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(result.error ?? `${answer.status} ${answer.statusText}`);
    return result;
  }
  async session(): Promise<Session | null> {
    const raw = await (await this.get("/api/session")).json();
    this.serial = raw?.serial ?? 0;
    return readSession(raw);
  }
  async graph(of: GraphOf = "given", dims = ""): Promise<Graph | null> {
    return readGraph(
      await (await this.get(`/api/graph?of=${of}${dims ? `&dims=${encodeURIComponent(dims)}` : ""}`)).json(),
    );
  }
  async stats(of: TensorOf): Promise<Stats> {
    return readStats(await (await this.get(`/api/stats?${tensor(of)}`)).json());
  }
  async slice(of: TensorOf, r: SliceRequest | null): Promise<Picture> {
    const query = r
      ? `&axes=${r.axes.join()}&index=${r.index.join()}&at=${r.at.join()}&of=${r.of.join()}&mode=${r.mode}&max=${r.max}`
      : "&max=256";
    return readPicture(await (await this.get(`/api/slice?${tensor(of)}${query}`)).arrayBuffer());
  }
  async emitted(): Promise<{ schedule: string; c: string }> {
    return (await this.get("/api/emitted")).json();
  }
  async source(file: string, line: number): Promise<SourceText> {
    return (await this.get(`/api/source?file=${encodeURIComponent(file)}&line=${line}`)).json();
  }
}
export type { Server };

export function openSource(): Source {
  const text = document.getElementById("data")?.textContent?.trim();
  return text ? new Inlined(JSON.parse(text)) : new Server();
}
export function isServer(s: Source): s is Server {
  return s.live;
}
