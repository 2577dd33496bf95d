"""Situations in which an alarm would be wrong."""

import green_flows
import green_newcomer
import green_odd
import green_outsider
import green_stranger
from green_models import MODELS
from green_situation import (Situation, accuracy, analyze, expected_wrong, noise, query, recording_and_model, storable, suite, truth, two_recordings,
                             with_engine)

SITUATIONS = []


def add(name, make, **more):
    SITUATIONS.append(Situation(name, make, red=False, **more))


COMMANDS = {"run": accuracy(), "run-json": accuracy("--json"), "run-junit": accuracy("--format", "junit"), "analyze": analyze(),
            "analyze-json": analyze("--json"), "query": query(), "test": suite, "run-ort": accuracy("--reference", "ort"),
            "analyze-ort": analyze("--reference", "ort"), "analyze-skip-gold": analyze("--skip-gold"), "run-torch": accuracy("--profile", "torch"),
            "analyze-torch": analyze("--profile", "torch")}


CHAINED = ("square", "two", "quant")  # an output that is made of another one: noise in both would contradict itself


def right_runtimes():
    """a runtime that is right, and one that rounds otherwise"""
    for model in MODELS.values():
        for sample in (0, 1) if model.name != "strings" else (0,):  # the engine knows samples by bytes, and strings have several spellings
            right = model.answers(sample)
            for k, (command, build) in enumerate(COMMANDS.items()):
                if sample == 1 and command == "test":
                    continue
                add(f"right/{model.name}/{sample}/{command}", with_engine(model, right, build, sample))
                if not model.exact and command != "query" and model.name not in CHAINED:
                    rounded = {o: noise(v, k) for o, v in right.items()}
                    add(f"rounds/{model.name}/{sample}/{command}", with_engine(model, rounded, build, sample))


def real_runtimes():
    for model in MODELS.values():
        right = model.answers()
        for backend in ("ort", "ort:opt=off", "jit"):
            if backend == "jit" and model.name == "strings":
                continue  # it compiles nothing of it: both sides are eager (green_red_by_hand.py)
            command = {"run": accuracy(), "analyze": analyze(), "query": query()}
            for word, build in command.items():
                add(f"real/{model.name}/{backend}/{word}", with_engine(model, right, lambda f, m, p, g, _s, b=backend, c=build: c(f, m, p, g, b)))
            add(f"expected/{model.name}/{backend}", expected_wrong(model, right, backend))


def recordings():
    kinds = ("npz", "safetensors", "npy")
    for n, model in enumerate(MODELS.values()):
        right = storable(model.values())
        if not [v for v in right if v not in model.inputs]:
            continue
        rounded = {k: v if k in model.inputs or model.exact else noise(v, n) for k, v in right.items()}
        for a in kinds:
            for b in kinds:
                add(f"recordings/{model.name}/{a}/{b}", two_recordings(rounded, right, a, b))
            add(f"engine-dump/{model.name}/{a}", recording_and_model(model, rounded, a))
            add(f"truth-compare/{model.name}/{a}", recording_and_model(model, right, a, swap=True))
        ends = {k: v for k, v in right.items() if k in model.inputs + model.outputs}
        add(f"only-ends/{model.name}", recording_and_model(model, ends))
        backwards = dict(reversed(list(right.items())))
        add(f"other-order/{model.name}", two_recordings(backwards, right, "safetensors", "safetensors"))
        for command in ("run", "analyze"):
            for backend in ("ort", "jit"):
                add(f"truth/{model.name}/{backend}/{command}", truth(model, right, command, backend))
                add(f"truth-ends/{model.name}/{backend}/{command}", truth(model, ends, command, backend))
            given = [f"--input={i}=truth.safetensors" for i in model.inputs]
            add(f"truth-inputs-given/{model.name}/{command}", truth(model, right, command, more=given))


right_runtimes()
real_runtimes()
recordings()
SITUATIONS += green_odd.CLEAN + green_flows.CLEAN + green_outsider.CLEAN + green_stranger.CLEAN + green_newcomer.CLEAN
