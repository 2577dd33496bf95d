"""Situations in which AGREE would be wrong."""

import numpy as np

from green_models import MODELS, mutations
from green_situation import (Situation, accuracy, analyze, expected_wrong, query, recording_and_model, storable, suite, truth, two_recordings,
                             with_engine)
import green_flows
import green_newcomer
import green_odd
import green_outsider
import green_red_by_hand
import green_stranger

SITUATIONS = []


def add(name, make, **more):
    SITUATIONS.append(Situation(name, make, **more))


RUNTIME = {"run": accuracy(), "analyze": analyze(), "query": query(), "test": suite}
VARIANTS = {"run-json": accuracy("--json"), "run-strict": lambda *a: [x if x != "--accuracy" else "--strict-accuracy" for x in accuracy()(*a)],
            "run-junit": accuracy("--format", "junit"), "analyze-json": analyze("--json"), "analyze-cosine": analyze("--metric", "cosine"),
            "analyze-junit": analyze("--format", "junit"), "analyze-skip-gold": analyze("--skip-gold"), "run-ort": accuracy("--reference", "ort"),
            "analyze-ort": analyze("--reference", "ort"), "query-plain": lambda *a: [x for x in query()(*a) if x != "--accuracy"]}


def wrong_runtimes():
    """each output of each model wrong in each way, for each command"""
    k = 0
    for model in MODELS.values():
        right = model.answers()
        for output in model.outputs:
            for how, wrong in mutations(right[output], model.exact):
                given = {**right, output: wrong}
                for command, build in RUNTIME.items():
                    add(f"runtime/{model.name}/{output}/{how}/{command}", with_engine(model, given, build))
                # The other ways to ask, in turn.
                variant = sorted(VARIANTS)[k % len(VARIANTS)]
                k += 1
                add(f"runtime/{model.name}/{output}/{how}/{variant}", with_engine(model, given, VARIANTS[variant]))


def whole_answers():
    """what a runtime can do wrong with all of its answer"""
    for model in MODELS.values():
        right, stale = model.answers(0), model.answers(1)
        for command, build in RUNTIME.items():
            add(f"stale/{model.name}/{command}", with_engine(model, stale, build))
            first = model.outputs[0]
            echo = {**right, first: model.samples[0][model.inputs[0]]}
            if echo[first].shape != right[first].shape or echo[first].tobytes() != right[first].tobytes():
                add(f"input-as-output/{model.name}/{command}", with_engine(model, echo, build))
            if len(model.outputs) > 1:
                a, b = model.outputs[:2]
                add(f"swapped-outputs/{model.name}/{command}", with_engine(model, {**right, a: right[b], b: right[a]}, build))
                add(f"missing-output/{model.name}/{command}", with_engine(model, {**right, b: None}, build))
            add(f"no-output/{model.name}/{command}", with_engine(model, {}, build))


def test_folders():
    for model in MODELS.values():
        right = model.answers()
        for output in model.outputs:
            for how, wrong in mutations(right[output], model.exact):
                add(f"expected/{model.name}/{output}/{how}", expected_wrong(model, {**right, output: wrong}))


# A dump holds the numbers; its type and the order of its axes are the dumper's.
OF_DUMPS = {"wider", "flat", "transposed_dims"}


def of_dumps(how, value, right):
    """Is it only another way to write the same numbers down? Dumps have [1] for a scalar, and rows of zeros for padding."""
    return how in OF_DUMPS or (how == "longer" and np.array_equal(value[-1], np.zeros_like(value[-1])) and
                               (right.size == 0 or np.array_equal(value.ravel()[:right.size], right.ravel(), equal_nan=right.dtype.kind == "f")))


def recordings():
    """two recordings, and a recording against the model, wrong at one value"""
    kinds = ("npz", "safetensors", "npy")
    n = 0
    for model in MODELS.values():
        right = storable(model.values())
        if not [v for v in right if v not in model.inputs]:
            continue
        for value in right:
            for how, wrong in mutations(right[value], model.exact):
                bad = {**right, value: wrong}
                n += 1
                if value not in model.inputs or (n % 3 == 0 and how not in OF_DUMPS):
                    add(f"recordings/{model.name}/{value}/{how}", two_recordings(bad, right, kinds[n % 3], kinds[n // 3 % 3]),
                        told=of_dumps(how, wrong, right[value]))
                if value in model.inputs:
                    continue
                add(f"engine-dump/{model.name}/{value}/{how}", recording_and_model(model, bad, kinds[n % 3]), told=of_dumps(how, wrong, right[value]))
                if value in model.outputs:
                    add(f"truth-compare/{model.name}/{value}/{how}", recording_and_model(model, bad, kinds[n % 3], swap=True),
                        told=of_dumps(how, wrong, right[value]))


def truths():
    """a recording as the reference of ONNX Runtime: wrong output, wrong inputs, of other inputs"""
    for model in MODELS.values():
        if model.name == "strings":
            continue
        right = model.values()
        for output in model.outputs:
            for how, wrong in mutations(right[output], model.exact):
                for command in ("run", "analyze"):
                    add(f"truth/{model.name}/{output}/{how}/{command}", truth(model, {**right, output: wrong}, command), told=of_dumps(how, wrong, right[output]))
        for command in ("run", "analyze"):
            other = {**model.values(1), **{i: right[i] for i in model.inputs}}
            add(f"truth-other-inputs/{model.name}/{command}", truth(model, other, command))
            only = {i: right[i] for i in model.inputs}
            add(f"truth-only-inputs/{model.name}/{command}", truth(model, only, command))
            without = {k: v for k, v in right.items() if k not in model.inputs}
            add(f"truth-without-inputs/{model.name}/{command}", truth(model, without, command))
            if len(model.outputs) > 1:
                less = {k: v for k, v in right.items() if k != model.outputs[-1]}
                add(f"truth-output-missing/{model.name}/{command}", truth(model, less, command))
            renamed = {(f"v{i}" if k not in model.inputs else k): np.zeros_like(v) for i, (k, v) in enumerate(right.items())}
            add(f"truth-renamed/{model.name}/{command}", truth(model, renamed, command))


wrong_runtimes()
whole_answers()
test_folders()
recordings()
truths()
SITUATIONS += green_red_by_hand.SITUATIONS + green_odd.RED + green_flows.RED + green_outsider.RED + green_stranger.RED + green_newcomer.RED
