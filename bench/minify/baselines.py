#!/usr/bin/python3
"""Two older ways to reduce a graph, as models that count questions: what plumb minify is measured against, in the same run.

power_of_two   PyTorch's fx minifier: truncate suffix and delta debugging at granularities that are powers of two, every success asked again.
two_sweep      Polygraphy's debug reduce --mode bisect: one bisection over the outputs, one over the inputs.

A graph is a list of (name, operator, names of its inputs), in order; its last node is its output. A predicate gets the operators that lead to the output.
By hand, chains of a ops, X, b ops beside what an independent model of the fx minifier counted: bench/minify/baselines.py"""
import math


class Asked:
    """Counts the questions."""

    def __init__(self, fails):
        self.fails, self.n = fails, 0

    def __call__(self, nodes, output):
        self.n += 1
        return self.fails([op for _, op, _ in alive(nodes, output)])


def alive(nodes, output):
    """The nodes that lead to an output, in order."""
    wanted, kept = {output}, []
    for node in reversed(nodes):
        if node[0] in wanted:
            kept.append(node)
            wanted.update(node[2])
    return kept[::-1]


# ---- PyTorch's fx minifier ----

def inputs_of(nodes):
    made = {name for name, _, _ in nodes}
    return list(dict.fromkeys(i for _, _, ins in nodes for i in ins if i not in made))


class State:
    def __init__(self, inputs, nodes, output):
        self.inputs, self.nodes, self.output = inputs, nodes, output

    def count(self):  # placeholders, calls and the output node
        return len(self.inputs) + len(self.nodes) + 1


def truncate_suffix(state, g, ask):
    for i, (name, _, _) in enumerate(state.nodes):
        place = len(state.inputs) + i
        if place % g == 0 and place % (2 * g) != 0:
            small = State(state.inputs, state.nodes[:i + 1], name)
            if small.count() < state.count() and ask(small.nodes, small.output):
                return small
    return None


def delta_debugging(state, g, ask):
    for start in range(0, state.count(), g):
        gone = {state.nodes[i][0] for i in range(max(start - len(state.inputs), 0), min(start + g - len(state.inputs), len(state.nodes)))}
        if not gone:
            continue
        rest = [n for n in state.nodes if n[0] not in gone]
        kept = alive(rest, state.output)
        small = State(inputs_of(kept) or ([state.output] if state.output in gone else []), kept, state.output)
        if ask(small.nodes, small.output):
            return small
    return None


def dead_code(state, g, ask):
    kept = alive(state.nodes, state.output)
    if len(kept) == len(state.nodes):
        return None
    return State(state.inputs, kept, state.output) if ask(kept, state.output) else None


def unused_inputs(state, g, ask):
    used = inputs_of(state.nodes)
    if len(used) == len(state.inputs):
        return None
    return State(used, state.nodes, state.output) if ask(state.nodes, state.output) else None


def try_granularity(state, g, whole, ask):
    for strategy in ([dead_code, unused_inputs] if whole else []) + [truncate_suffix, delta_debugging]:
        small = strategy(state, g, ask)
        if small is not None and ask(small.nodes, small.output):  # every success is asked again
            return small
    return None


def power_of_two(nodes, fails):
    """(questions, nodes left)"""
    ask = Asked(fails)
    state = State(inputs_of(nodes), nodes, nodes[-1][0])
    ask(state.nodes, state.output)  # the sanity check
    while True:
        g = 1 << int(math.log2(state.count()))
        small = try_granularity(state, g, True, ask)
        while small is None and g > 1:
            g //= 2
            small = try_granularity(state, g, False, ask)
        if small is None:
            break
        state = small
    ask(state.nodes, state.output)  # the final check
    return ask.n, len(state.nodes)


# ---- Polygraphy's debug reduce ----

def reachable(nodes, first):
    """The nodes from `first` on that depend on it: what is left when its inputs are the graph's and other branches are frozen."""
    found = {nodes[first][0]}
    kept = [nodes[first]]
    for node in nodes[first + 1:]:
        if found & set(node[2]):
            found.add(node[0])
            kept.append(node)
    return kept


def two_sweep(nodes, fails):
    """(questions, nodes left)"""
    ask = Asked(fails)
    low, high = 0, len(nodes) - 1  # the earliest output that still fails
    while low < high:
        middle = (low + high) // 2
        part = alive(nodes[:middle + 1], nodes[middle][0])
        if ask(part, nodes[middle][0]):
            high = middle
        else:
            low = middle + 1
    nodes = alive(nodes[:high + 1], nodes[high][0])
    output = nodes[-1][0]
    low, high = 0, len(nodes) - 1  # the latest input that still fails
    while low < high:
        middle = (low + high + 1) // 2
        if ask(reachable(nodes, middle), output):
            low = middle
        else:
            high = middle - 1
    whole = reachable(nodes, low)
    return ask.n, len(whole if fails([op for _, op, _ in alive(whole, output)]) else nodes)


def has(*operators):
    return lambda ops: all(op in ops for op in operators)


def chain(a, b):
    names = [f"n{i}" for i in range(a + 1 + b)]
    ops = ["Sin"] * a + ["Relu"] + ["Cos"] * b
    return [(names[i], ops[i], [names[i - 1] if i else "x"]) for i in range(len(ops))]


def main():
    counted = {(0, 0): 4, (0, 1): 9, (1, 1): 10, (10, 10): 19, (20, 20): 35, (100, 100): 37, (500, 500): 63}  # by an independent model
    for (a, b), queries in counted.items():
        n, left = power_of_two(chain(a, b), has("Relu"))
        print(f"power of two, {a} and {b}: {n} questions (counted elsewhere: {queries}), {left} left; two sweeps: {two_sweep(chain(a, b), has('Relu'))}")


if __name__ == "__main__":
    main()
