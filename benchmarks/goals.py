"""The goals for speed and memory, and whether the results meet them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Result = dict[str, Any]
NOT_MEASURED = "not measured"
EAGER = ("transformers fp32", "transformers bf16")


class Outcome(NamedTuple):
    """A goal and one result that bears on it."""

    what: str
    wanted: str
    where: str = "–"
    measured: str = NOT_MEASURED
    verdict: str = NOT_MEASURED
    """`met`, `missed` or not measured."""
    why: str = ""
    """Why the goal was missed, as far as is known."""


def is_cuda(result: Result) -> bool:
    """Whether a result was measured on a GPU."""
    return bool(result.get("cuda", "NVIDIA" in result["device"]))


def place_of(result: Result) -> str:
    """Return the machine that a result was measured on."""
    if is_cuda(result):
        return str(result["device"]).removeprefix("NVIDIA ")
    count = result.get("cores") or result["threads"]
    return f"CPU, {result['device']}, {count} {'core' if 'cores' in result else 'thread'}{'s' * (count > 1)}"


def setting_of(result: Result) -> str:
    """Return the setting that the methods were measured in."""
    length = f" × {result['length']} tokens" if result.get("length") else ""
    return f"{place_of(result)}, {result['encoder']}, {result['batch_size']} rows per task{length}"


@dataclass(frozen=True)
class Goal:
    """A limit on a value of results."""

    what: str
    benchmark: str
    limit: float
    unit: str
    """Written after the number."""
    value: Callable[[Result], float | None]
    """Gets the value from a result; None if it has none."""
    least: bool = False
    """Whether the limit is a lower bound instead of an upper one."""
    digits: int = 1
    only: dict[str, Any] = field(default_factory=dict)
    """What a result must have been measured with, such as a shape."""
    where: Callable[[Result], str] = place_of
    why: str = ""
    """Why the goal is missed, as far as is known."""

    def outcomes(self, results: Sequence[Result]) -> list[Outcome]:
        """Judge every matching result; return a verdict of `not measured` if there is none."""
        wanted = f"{'≥' if self.least else '≤'} {self.limit:g}{self.unit}"
        return list(self._judged(wanted, results)) or [Outcome(self.what, wanted)]

    def _judged(self, wanted: str, results: Sequence[Result]) -> Iterator[Outcome]:
        for result in results:
            known = {**result, "cuda": is_cuda(result)}
            fits = result["benchmark"] == self.benchmark and all(known.get(key) == self.only[key] for key in self.only)
            value = self.value(result) if fits else None
            if value is not None:
                met = value >= self.limit if self.least else value <= self.limit
                shown = f"{value:.{self.digits}f}{self.unit}"
                yield Outcome(self.what, wanted, self.where(result), shown, "met" if met else "missed", self.why)


def rival_at(size: int, name: str, key: str) -> Callable[[Result], float | None]:
    """Return a function that gets the number of one rival at a batch size."""
    return lambda result: result["sizes"].get(str(size), {}).get(name, {}).get(key)


def ours_at(size: int, key: str, factor: float = 1.0) -> Callable[[Result], float | None]:
    """Return a function that gets palbert's own number at a batch size, with the default capture of steps."""

    def value(result: Result) -> float | None:
        found = rival_at(size, "palbert, capture auto", key)(result)
        return None if found is None else found * factor

    return value


def best_eager(result: Result) -> float | None:
    """Return the time of the fastest eager mode as a multiple of palbert's; None unless all were measured."""
    ratios = [rival_at(16, name, "ratio")(result) for name in EAGER]
    return None if None in ratios else min(ratio for ratio in ratios if ratio is not None)


def on_cpu(kind: str, rivals: str) -> Callable[[Result], float | None]:
    """Return a function that gets the time of the fastest of some rivals, as a multiple of palbert's."""

    def value(result: Result) -> float | None:
        times = result["seconds"][kind]
        found = [taken for name, taken in times.items() if name.startswith(rivals)]
        return min(found) / times["palbert"] if found else None

    return value


def over(rival: str, ours: str) -> Callable[[Result], float | None]:
    """Return a function that gets a rival's time from texts to vectors, as a multiple of palbert's in one format."""

    def value(result: Result) -> float | None:
        times = result["time_over_palbert_fp32"]
        own, other = times.get(f"palbert {ours}"), times.get(rival)
        return None if own is None or other is None else other / own

    return value


def alone_over_onnx(ours: str) -> Callable[[Result], float | None]:
    """Return a function that gets palbert's time for one text as a multiple of onnxruntime's best in one format."""

    def value(result: Result) -> float | None:
        times = result.get("one_text", {}).get("seconds", {})
        rivals = [taken for name, taken in times.items() if name.startswith(f"onnxruntime {ours}")]
        own = times.get(f"palbert {ours}")
        return own / min(rivals) if own and rivals else None

    return value


def ratio_of(method: str, key: str) -> Callable[[Result], float | None]:
    """Return a function that gets the cost of a method as a multiple of the plain step."""
    return lambda result: result["ratios"].get(method, {}).get(key)


def gigabytes_of(method: str) -> Callable[[Result], float | None]:
    """Return a function that gets the memory that torch reserved for a step of a method."""

    def value(result: Result) -> float | None:
        found = result.get("absolute", {}).get(method, {}).get("reserved_bytes")
        return None if found is None else found / 1e9

    return value


def seconds_of(name: str) -> Callable[[Result], float | None]:
    """Return a function that gets one measured time."""
    return lambda result: result["seconds"].get(name)


def exchange_at(size: int) -> Callable[[Result], float | None]:
    """Return a function that gets the time of a step of one process with NCCL, as a multiple of one without."""
    return lambda result: result["sizes"].get(str(size), {}).get("one process of torchrun", {}).get("run_seconds_ratio")


def explaining(task: str) -> Callable[[Result], float | None]:
    """Return a function that gets the cost of integrated gradients of a task's text, as a multiple of one pass."""
    return lambda result: result["cost"].get(task, {}).get("ratio")


def served(name: str, clients: int, key: str, factor: float = 1.0) -> Callable[[Result], float | None]:
    """Return a function that gets a number of a server under so many clients."""

    def value(result: Result) -> float | None:
        found = result["servers"].get(name, {}).get(str(clients), {}).get(key)
        return None if found is None else found * factor

    return value


def served_over(ours: str, rival: str, clients: int, key: str) -> Callable[[Result], float | None]:
    """Return a function that gets a number of one server as a multiple of another's."""

    def value(result: Result) -> float | None:
        own, other = (served(name, clients, key)(result) for name in (ours, rival))
        return None if own is None or other is None else own / other

    return value


def served_over_offline(clients: int) -> Callable[[Result], float | None]:
    """Return a function that gets the requests per second of palbert's service as a share of texts per second."""

    def value(result: Result) -> float | None:
        own = served("palbert fp32", clients, "requests_per_second")(result)
        offline = result["offline_texts_per_second"].get("fp32")
        return None if own is None or offline is None else own / offline

    return value


GPU_BASE = {"cuda": True, "shape": "base"}
USERS = "sentence-transformers, FastAPI"
SERVICE = "service, MiniLM-L6, fp32, 16 clients"
STEP, RUN = "training step, 16 rows, BERT-base shape", "training throughput, 256 rows, BERT-base shape"
CPU = "MiniLM-L6 shape, 32 rows"
READING = "reading and tokenizing 404,000 pairs"
WHY = {
    "PAL": "seven small kernels per layer and direction, half as many as the layer itself has; on their own stream "
    "they hide behind the layer's where these are long enough, which with 16 short rows per task they are not",
    "SMART": "it takes 8 units of arithmetic where the plain step takes 3 (a forward pass is one, a backward pass "
    "two): two forward passes more, one backward pass to the words alone and one to all weights. Only the "
    "optimizer's share of a step makes it less than 2.67 ×",
    "PCGrad": "one forward and one backward pass serve all tasks, but each weight has a gradient for each of them: "
    "three times the products for weights, each a third as long, and 1.2 GiB to write, compare and add up, "
    "whatever the rows. Both weigh less the larger a step is. At 16 rows per task the table of words is compared by "
    "the factors of its gradients, which takes 0.26 GiB off; for the layers' matrices too that would leave 1.17 × the "
    "memory and take 1.48 × the time",
}
STEP_WHY = (
    "of 3.4 ms on the device, 1.4 ms go to moving 110 million weights (AdamW 1.08, their length 0.14, their copies in "
    "half precision 0.16, all near what the memory gives), and most of the rest to some 490 kernels of 3 to 8 µs each"
)
SORTED_WHY = (
    "rows sorted by length need hardly any padding, and nine tenths of palbert's time then go to the same products "
    "of the same matrices, in oneDNN's own layout; int8 is the way past that"
)
ALONE_WHY = (
    "a text of 23 tokens is some 100 small kernels, each launched by Python. In int8, on one thread, 2.3 ms are 0.9 "
    "for oneDNN's products, 0.4 for the range of each token, 0.2 for attention, 0.15 for norms and GELU, 0.2 between "
    "them and 0.5 from text to tokens and back. onnxruntime runs a compiled graph, and in int8 it has one range for "
    "the whole text: its vectors have a cosine of 0.955 with those of fp32, palbert's 0.999"
)
COMPILED_WHY = (
    "with 256 rows the kernels are long enough for the host to keep up, and compiled ones are fused as palbert's are: "
    "padding is what is left, 3.1 times the tokens, each of which takes about as long. A step by itself takes 3.07 ×; "
    "until the first one is done 53 s go by"
)
FLOPS_WHY = (
    "a tenth of the step is the optimizer, a quarter norms, dropout, GELU and biases, which move memory and multiply "
    "little; with 512 rows it is 328, with 1,024 rows 359 (see how a step grows)"
)
OFFLINE_WHY = (
    "with one text from each of 16 clients, no batch has more than 16, and `predict` on 16 texts at a time reaches 0.8 "
    "of its throughput with 512; the rest goes to HTTP and to the clients, which share the two cores. More clients, or "
    "more texts per request, come nearer"
)
OVERHEAD_WHY = (
    "about three fifths are the event loop's (HTTP, the body, checks, metrics, writing the answer; Starlette alone "
    "takes 31 µs), two fifths the engine's thread (tokens, turns, answers, waking requests up), whose work for a batch "
    "is shared by few requests where the model takes no time"
)
EXPLAINING_WHY = (
    "34 copies of the text, forward and back, are the arithmetic of 68 passes, and on one core a pass is mostly "
    "arithmetic. Copies cost less where the host's work outweighs it, as on a GPU"
)
GOALS = (
    Goal(
        f"{STEP}, against transformers bf16 eager",
        "train_step",
        10,
        "×",
        rival_at(16, "transformers bf16", "ratio"),
        least=True,
        only=GPU_BASE,
    ),
    Goal(f"{STEP}, against its best eager mode", "train_step", 5, "×", best_eager, least=True, only=GPU_BASE),
    Goal(STEP, "train_step", 3, " ms", ours_at(16, "seconds", 1e3), only=GPU_BASE, why=STEP_WHY),
    Goal(
        f"{RUN}, against transformers bf16 with torch.compile",
        "train_step",
        3,
        "×",
        rival_at(256, "transformers bf16 compiled", "run_ratio"),
        least=True,
        digits=2,
        only=GPU_BASE,
        why=COMPILED_WHY,
    ),
    Goal(
        RUN,
        "train_step",
        300,
        " TFLOP/s",
        ours_at(256, "tflops"),
        least=True,
        digits=0,
        only=GPU_BASE,
        why=FLOPS_WHY,
    ),
    *(
        Goal(
            f"one process with NCCL, {size} rows, BERT-base shape, against one without",
            "processes",
            1.03,
            "×",
            exchange_at(size),
            digits=3,
            only=GPU_BASE,
        )
        for size in (16, 64, 256)
    ),
    *(
        Goal(
            f"CPU {what}, {CPU}, against {rival}",
            "encoder_cpu",
            limit,
            "×",
            on_cpu(kind, rival),
            least=True,
            digits=2,
        )
        for what, kind, rival, limit in (
            ("training step", "train", "transformers", 2.5),
            ("inference", "inference", "transformers", 1.6),
        )
    ),
    *(
        Goal(
            f"CPU inference from texts, MiniLM-L6, {ours}, against {rival}",
            "inference_cpu",
            limit,
            "×",
            over(rival, ours),
            least=True,
            digits=2,
            why=SORTED_WHY,
        )
        for ours, rival, limit in (
            ("fp32", "transformers sdpa", 1.6),
            ("fp32", "transformers sdpa, sorted", 1.6),
            ("fp32", "sentence-transformers", 1),
            ("int8", "transformers sdpa, sorted", 1.6),
        )
    ),
    *(
        Goal(
            f"CPU inference of one text, MiniLM-L6, {ours}, against onnxruntime's best",
            "inference_cpu",
            1,
            "×",
            alone_over_onnx(ours),
            digits=2,
            why=ALONE_WHY,
        )
        for ours in ("fp32", "int8")
    ),
    *(
        Goal(
            f"{what}, 3 tasks, against the plain step",
            "methods",
            limit,
            "×",
            ratio_of(method, key),
            digits=2,
            where=setting_of,
            why=WHY.get(method, ""),
        )
        for what, method, key, limit in (
            ("time of a step with PALs", "PAL", "seconds", 1.25),
            ("time of a step with SMART", "SMART", "seconds", 2),
            ("time of a step with PCGrad", "PCGrad", "seconds", 1.3),
            ("peak memory of a step with PCGrad", "PCGrad", "bytes", 1.2),
        )
    ),
    Goal(
        "memory of a step with PCGrad, 3 tasks × 8 rows × 128 tokens, BERT-base shape",
        "methods",
        16,
        " GB",
        gigabytes_of("PCGrad"),
        only={**GPU_BASE, "length": 128, "batch_size": 8},
    ),
    *(
        Goal(
            f"integrated gradients of {what} of 16 words, 32 steps in one packed batch, against one pass",
            "explanations",
            12,
            "×",
            explaining(task),
            why=EXPLAINING_WHY,
        )
        for what, task in (("a text", "sst"), ("a joint pair", "quora"), ("a siamese pair", "sts"))
    ),
    *(
        Goal(
            f"{SERVICE}: {what}",
            "serving",
            limit,
            unit,
            value,
            least=least,
            digits=digits,
            only={"cuda": False},
            why=why,
        )
        for what, limit, unit, value, least, digits, why in (
            (
                "requests per second against sentence-transformers behind FastAPI",
                *(3, "×", served_over("palbert fp32", USERS, 16, "requests_per_second"), True, 1, ""),
            ),
            (
                "p99 of the latency against sentence-transformers behind FastAPI",
                *(0.5, "×", served_over("palbert fp32", USERS, 16, "p99_seconds"), False, 2, ""),
            ),
            (
                "requests per second against texts per second offline",
                *(0.9, "×", served_over_offline(16), True, 2, OFFLINE_WHY),
            ),
            (
                "time of three tasks at once against one",
                *(1.15, "×", served_over("palbert fp32", "palbert fp32, three tasks", 16, "requests_per_second")),
                *(False, 2, ""),
            ),
            (
                "processor time per request with an empty model",
                *(100, " µs", served("palbert, empty model", 16, "cpu_seconds_per_request", 1e6), False, 0),
                OVERHEAD_WHY,
            ),
        )
    ),
    Goal(
        "service, bf16, 64 clients: requests per second against sentence-transformers behind FastAPI",
        "serving",
        5,
        "×",
        served_over("palbert bf16", USERS, 64, "requests_per_second"),
        least=True,
        only={"cuda": True},
    ),
    Goal("`palbert serve` until it answers, likewise", "start", 3, " s", seconds_of("palbert serve"), digits=2),
    Goal("`palbert --help`, a process of its own", "start", 0.3, " s", seconds_of("palbert --help"), digits=2),
    Goal("`palbert predict` on one sentence, likewise", "start", 3, " s", seconds_of("palbert predict"), digits=2),
    Goal(f"{READING}, the first time", "reading", 30, " s", seconds_of("palbert, first time")),
    Goal(f"{READING}, from the cache", "reading", 2, " s", seconds_of("palbert, from the cache"), digits=2),
)


def judge(results: Sequence[Result]) -> list[Outcome]:
    """Judge all goals by all results."""
    return [outcome for goal in GOALS for outcome in goal.outcomes(results)]
