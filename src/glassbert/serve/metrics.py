"""Numbers for Prometheus, in its text format: the names of text-embeddings-inference, and our own.

Written by hand: the usual client library appends `_total` to every counter, which breaks existing dashboards.
"""

import resource
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import Literal, TypeVar

DURATIONS = tuple(15e-6 * 1.5**power for power in range(35))
SIZES = tuple(float(2**power) for power in range(21))

Labels = tuple[tuple[str, str], ...]
Sample = tuple[str, float]
"""A name with its labels, as it is printed, and the number."""
Snapshot = dict[str, dict[str, float]]
"""The samples of a process, by the name of their metric."""
Read = Callable[[], Iterable[tuple[Mapping[str, str], float]]]
OverProcesses = Literal["sum", "max"]


class Counter:
    """A number that only grows, for each combination of labels."""

    kind = "counter"
    over_processes: OverProcesses = "sum"

    def __init__(self, name: str, help: str, *known: Mapping[str, str]) -> None:
        """Start at zero.

        Args:
            known: Labels that exist from the start.
        """
        self.name, self.help = name, help
        self.values: dict[Labels, float] = {_key(labels): 0.0 for labels in known}

    def add(self, number: float = 1, **labels: str) -> None:
        key = _key(labels)
        self.values[key] = self.values.get(key, 0.0) + number

    def samples(self) -> Iterator[Sample]:
        for labels, value in (self.values or {(): 0.0}).items():
            yield self.name + _shown(labels), value


class Histogram:
    """How many values lie below each of some borders."""

    kind = "histogram"
    over_processes: OverProcesses = "sum"

    def __init__(self, name: str, help: str, borders: tuple[float, ...] = DURATIONS) -> None:
        self.name, self.help, self.borders = name, help, borders
        self.counts = [0] * (len(borders) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.borders, value)] += 1
        self.total += value

    def samples(self) -> Iterator[Sample]:
        below = 0
        for border, count in zip((*self.borders, float("inf")), self.counts, strict=True):
            below += count
            yield f'{self.name}_bucket{{le="{_number(border)}"}}', below
        yield f"{self.name}_sum", self.total
        yield f"{self.name}_count", below


class Gauge:
    """A number that is read when it is asked for."""

    kind = "gauge"

    def __init__(self, name: str, help: str, read: Read, over_processes: OverProcesses = "sum") -> None:
        """Read the number when it is asked for.

        Args:
            over_processes: What the number of several processes is.
        """
        self.name, self.help, self.read, self.over_processes = name, help, read, over_processes

    def samples(self) -> Iterator[Sample]:
        for labels, value in self.read():
            yield self.name + _shown(_key(labels)), value


class ReadCounter(Gauge):
    """A number that only grows, and that is read when it is asked for."""

    kind = "counter"


M = TypeVar("M", Counter, Histogram, Gauge)

_METHODS = ({"method": "single"}, {"method": "batch"})
_FAILURES = ("overloaded", "tokenization", "validation", "batch_size", "model_type", "inference", "dropped")
_TASK_WORDS = {"embed": "embed", "classify": "predict", "pair": "predict"}
"""Tasks that text-embeddings-inference counts by itself, and its words for them."""


class Metrics:
    """Everything that is counted. Requests are counted on the event loop, batches on compute threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._all: list[Counter | Histogram | Gauge] = []
        new = self._new
        self.requests = new(Counter("te_request_count", "Requests.", *_METHODS))
        self.successes = new(Counter("te_request_success", "Requests that were answered.", *_METHODS))
        self.failures = new(
            Counter(
                "te_request_failure", "Requests that failed, by reason.", *({"err": err} for err in _FAILURES)
            )
        )
        self.texts = {
            word: new(Counter(f"te_{word}_count", f"Texts, {word}.")) for word in ("embed", "predict")
        }
        self.answered_texts = {
            word: new(Counter(f"te_{word}_success", f"Texts that were answered, {word}."))
            for word in ("embed", "predict")
        }
        self.durations = {
            (word, stage): new(Histogram(f"te_{word}{stage}_duration", f"Seconds of a {word}{stage}."))
            for word in ("request", "embed", "predict")
            for stage in ("", "_tokenization", "_queue", "_inference")
        }
        self.lengths = new(Histogram("te_request_input_length", "Tokens of a text.", SIZES))
        self.batch_sizes = new(Histogram("te_batch_next_size", "Texts of a batch.", SIZES))
        self.batch_tokens = new(Histogram("te_batch_next_tokens", "Tokens of a batch.", SIZES))
        self.batch_seconds = new(Histogram("glassbert_batch_seconds", "Seconds of a batch."))
        self.truncated = new(Counter("glassbert_truncated_total", "Texts of which a part was not read."))
        self.windows = new(Counter("glassbert_windows_total", "Windows of long texts."))
        self.cancelled = new(Counter("glassbert_cancelled_total", "Requests whose client left."))
        self.expired = new(Counter("glassbert_deadline_total", "Requests whose time was up."))
        self.answers = new(Counter("glassbert_requests_total", "Answers by task, model and status."))
        self.process_restarts = new(
            Counter("glassbert_process_restarts_total", "Processes that died and were replaced.")
        )
        self.worker_restarts = new(
            Counter("glassbert_worker_restarts_total", "Compute threads that died and were replaced.")
        )
        self.gauge("process_resident_memory_bytes", "Memory in use.", lambda: [({}, _resident_bytes())])
        new(ReadCounter("process_cpu_seconds_total", "CPU time used.", lambda: [({}, time.process_time())]))
        self.gauge("process_open_fds", "Open files.", lambda: [({}, _num_open_files())])
        self.gauge("process_max_fds", "Files that may be open.", lambda: [({}, _max_open_files())], "max")
        self.other_processes: Callable[[], Iterable[Snapshot]] = lambda: ()
        """Returns what the other processes of this server have counted."""

    def _new(self, metric: M) -> M:
        self._all.append(metric)
        return metric

    def gauge(self, name: str, help: str, read: Read, over_processes: OverProcesses = "sum") -> None:
        """Add a number that ``read`` returns for each combination of labels."""
        self._new(Gauge(name, help, read, over_processes))

    def batch(self, num_texts: int, num_tokens: int, seconds: float) -> None:
        """Count a batch; called by compute threads."""
        with self._lock:
            self.batch_sizes.add(num_texts)
            self.batch_tokens.add(num_tokens)
            self.batch_seconds.add(seconds)

    def stages(self, task: str, seconds: Mapping[str, float]) -> None:
        """Count the seconds of a request by stage: "" for all of it, _tokenization, _queue, _inference."""
        words = ("request", _TASK_WORDS[task]) if task in _TASK_WORDS else ("request",)
        for word in words:
            for stage, value in seconds.items():
                self.durations[word, stage].add(value)

    def count_texts(self, task: str, number: int, *, answered: bool = False) -> None:
        """Count texts that were asked about, or answered."""
        if word := _TASK_WORDS.get(task):
            (self.answered_texts if answered else self.texts)[word].add(number)

    def snapshot(self) -> Snapshot:
        """Return what this process has counted."""
        with self._lock:
            return {metric.name: dict(metric.samples()) for metric in self._all}

    def lasting(self, snapshot: Snapshot) -> Snapshot:
        """Return what still counts when the process of a snapshot has ended."""
        return {one.name: snapshot.get(one.name, {}) for one in self._all if one.kind != "gauge"}

    def render(self) -> str:
        """Return everything in the text format of Prometheus, all processes together."""
        lines: list[str] = []
        snapshots = [self.snapshot(), *self.other_processes()]
        for metric in self._all:
            found = merged([one.get(metric.name, {}) for one in snapshots], metric.over_processes)
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
            lines += [f"{name} {_number(value)}" for name, value in found.items()]
        return "\n".join(lines) + "\n"


def merged(samples: Iterable[Mapping[str, float]], how: OverProcesses = "sum") -> dict[str, float]:
    """Return the samples of several processes as those of one."""
    found: dict[str, float] = {}
    for one in samples:
        for name, value in one.items():
            before = found.get(name, 0.0)
            found[name] = max(before, value) if how == "max" else before + value
    return found


def _key(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


def _shown(labels: Labels) -> str:
    def escaped(value: str) -> str:
        return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in labels) + "}" if labels else ""


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(value)


def _resident_bytes() -> float:
    try:
        return float(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * 1024


def _num_open_files() -> float:
    try:
        return float(len(list(Path("/proc/self/fd").iterdir())))
    except OSError:
        return 0.0


def _max_open_files() -> float:
    return float(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
