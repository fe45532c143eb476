"""Write the golden TF1 checkpoints of this folder with TensorFlow itself.

Not run by the tests, which must work without TensorFlow. To write it all again, in its own environment::

    pip install tensorflow-cpu
    python tests/golden/tf1/make.py

It writes, beside itself:

- ``tiny/``: a folder as Google publishes them, with every variable of the pre-training graph, the step
  counter and two Adam slots
- ``sharded/``: the same variables written by two devices into two data files
- ``types/``: one variable of each data type, a scalar and an empty tensor among them
- ``partitioned/``: a variable that TensorFlow was told to cut into slices
- ``variables.npz``, ``types.npz``: what TensorFlow's own reader finds in ``tiny`` and ``types``
- ``outputs.npz``: ids, segments, mask, and the logits that TensorFlow computes from ``tiny``
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
FOLDER = Path(__file__).parent
SEED = 20181031
CONFIG = {
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 16,
    "initializer_range": 0.02,
    "intermediate_size": 32,
    "max_position_embeddings": 24,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "type_vocab_size": 2,
    "vocab_size": 40,
}
PIECES = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] the a cat dog bird sat ran sang on under mat tree and "
    "is was small old ##s ##ing ##ed ##er un ##do re . , ? ! \u4e2d \u6587 \u732b \u72d7 \u5728 \u6811 \u4e0b"
)
NUM_TOKENS = 9


class Variables:
    """Make each variable once, with values that differ enough for a swapped or transposed one to show."""

    def __init__(self, device_of: Callable[[int], str]) -> None:
        self.random = np.random.default_rng(SEED)
        self.device_of = device_of
        self.all: dict[str, tf.Variable] = {}

    def __call__(self, name: str, *shape: int) -> tf.Variable:
        if name not in self.all:
            values = self.random.normal(1.0 if name.endswith("gamma") else 0.0, 0.3, shape).astype(np.float32)
            with tf1.device(self.device_of(len(self.all))):
                self.all[name] = tf1.get_variable(name, initializer=values, use_resource=False)
        return self.all[name]

    def dense(self, x: tf.Tensor, name: str, size: int) -> tf.Tensor:
        return x @ self(f"{name}/kernel", x.shape[-1], size) + self(f"{name}/bias", size)

    def norm(self, x: tf.Tensor, name: str) -> tf.Tensor:
        mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
        scaled = (x - mean) / tf.sqrt(variance + 1e-12)
        return scaled * self(f"{name}/gamma", x.shape[-1]) + self(f"{name}/beta", x.shape[-1])


def gelu(x: tf.Tensor) -> tf.Tensor:
    """Apply the exact GELU, which is what readers of the config understand by the word."""
    return 0.5 * x * (1.0 + tf.math.erf(x / np.sqrt(2.0)))


def attention(variables: Variables, x: tf.Tensor, mask: tf.Tensor, name: str) -> tf.Tensor:
    size, heads = CONFIG["hidden_size"], CONFIG["num_attention_heads"]

    def split(kind: str) -> tf.Tensor:
        projected = variables.dense(x, f"{name}/self/{kind}", size)
        return tf.transpose(tf.reshape(projected, [-1, NUM_TOKENS, heads, size // heads]), [0, 2, 1, 3])

    query, key, value = split("query"), split("key"), split("value")
    scores = tf.matmul(query, key, transpose_b=True) / np.sqrt(size // heads)
    probabilities = tf.nn.softmax(scores + (1.0 - mask[:, None, None, :]) * -10000.0)
    context = tf.reshape(tf.transpose(probabilities @ value, [0, 2, 1, 3]), [-1, NUM_TOKENS, size])
    return variables.norm(
        x + variables.dense(context, f"{name}/output/dense", size), f"{name}/output/LayerNorm"
    )


def pretraining_graph(
    variables: Variables, ids: tf.Tensor, segments: tf.Tensor, mask: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Build BERT with both pre-training heads; each variable gets the name it has in Google's graph."""
    size = CONFIG["hidden_size"]
    words = variables("bert/embeddings/word_embeddings", CONFIG["vocab_size"], size)
    kinds = variables("bert/embeddings/token_type_embeddings", CONFIG["type_vocab_size"], size)
    positions = variables("bert/embeddings/position_embeddings", CONFIG["max_position_embeddings"], size)
    x = tf.gather(words, ids) + tf.gather(kinds, segments) + positions[:NUM_TOKENS]
    x = variables.norm(x, "bert/embeddings/LayerNorm")
    for index in range(CONFIG["num_hidden_layers"]):
        layer = f"bert/encoder/layer_{index}"
        x = attention(variables, x, mask, f"{layer}/attention")
        inner = gelu(variables.dense(x, f"{layer}/intermediate/dense", CONFIG["intermediate_size"]))
        x = variables.norm(
            x + variables.dense(inner, f"{layer}/output/dense", size), f"{layer}/output/LayerNorm"
        )
    pooled = tf.tanh(variables.dense(x[:, 0], "bert/pooler/dense", size))
    transform = gelu(variables.dense(x, "cls/predictions/transform/dense", size))
    transform = variables.norm(transform, "cls/predictions/transform/LayerNorm")
    logits = tf.matmul(tf.reshape(transform, [-1, size]), words, transpose_b=True)
    logits += variables("cls/predictions/output_bias", CONFIG["vocab_size"])
    relation = tf.matmul(pooled, variables("cls/seq_relationship/output_weights", 2, size), transpose_b=True)
    relation += variables("cls/seq_relationship/output_bias", 2)
    return {
        "prediction_logits": tf.reshape(logits, [-1, NUM_TOKENS, CONFIG["vocab_size"]]),
        "seq_relationship_logits": relation,
    }


def write_pretrained(prefix: Path, *, num_devices: int) -> dict[str, np.ndarray]:
    """Save the pre-training graph at ``prefix``; return its inputs and outputs."""
    random = np.random.default_rng(SEED + 1)
    inputs = {
        "ids": random.integers(5, CONFIG["vocab_size"], (2, NUM_TOKENS)),
        "segments": np.array([[0] * 5 + [1] * 4, [0] * 6 + [1] * 3]),
        "mask": np.array([[1] * NUM_TOKENS, [1] * 7 + [0] * 2], np.float32),
    }
    with tf.Graph().as_default():
        variables = Variables(lambda index: f"/cpu:{index % num_devices}")
        outputs = pretraining_graph(variables, *(tf.constant(value) for value in inputs.values()))
        variables("bert/pooler/dense/kernel/adam_m", 16, 16)
        variables("bert/pooler/dense/kernel/adam_v", 16, 16)
        with tf1.device("/cpu:0"):
            tf1.get_variable("global_step", initializer=np.int64(1000), use_resource=False)
        with tf1.Session(config=tf1.ConfigProto(device_count={"CPU": num_devices})) as session:
            session.run(tf1.global_variables_initializer())
            save(session, prefix, sharded=num_devices > 1)
            return inputs | session.run(outputs)


def write_types(prefix: Path) -> None:
    """Save one variable of each type; the odd sizes put the next one at an unaligned offset."""
    values = {
        "a_bool": np.array([True, False, True]),
        "a_double": np.array([[1.5, -2.25], [np.pi, np.inf]]),
        "a_float": np.array([0.0, -0.0, np.nan, 1e-45, np.finfo(np.float32).max], np.float32),
        "a_half": np.array([1.0, 6e-8, -65504.0], np.float16),
        "a_string": np.array([b"caf\xc3\xa9", b""], object),
        "an_empty": np.zeros((0, 3), np.float32),
        "an_int16": np.array([-32768, 32767], np.int16),
        "an_int32": np.array([-(2**31), 2**31 - 1], np.int32),
        "an_int64": np.int64(-(2**62)),
        "an_int8": np.array([[-128], [127], [0]], np.int8),
        "an_uint8": np.arange(7, dtype=np.uint8),
        "z_bfloat16": np.array([1.0, -3.5], tf.bfloat16.as_numpy_dtype),
    }
    with tf.Graph().as_default(), tf1.Session() as session:
        for name, value in values.items():
            tf1.get_variable(name, initializer=value, use_resource=False)
        session.run(tf1.global_variables_initializer())
        save(session, prefix)


def write_partitioned(prefix: Path) -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.get_variable(
            "bert/embeddings/word_embeddings",
            shape=(6, 2),
            initializer=tf1.ones_initializer(),
            partitioner=tf1.fixed_size_partitioner(2),
            use_resource=False,
        )
        session.run(tf1.global_variables_initializer())
        save(session, prefix)


def save(session: tf1.Session, prefix: Path, *, sharded: bool = False) -> None:
    prefix.parent.mkdir(exist_ok=True)
    tf1.train.Saver(sharded=sharded).save(session, str(prefix), write_meta_graph=False, write_state=False)


def as_tensorflow_reads(prefix: Path) -> dict[str, np.ndarray]:
    """Return the variables of numpy types by TensorFlow's own reader."""
    reader = tf.train.load_checkpoint(str(prefix))
    types = reader.get_variable_to_dtype_map()
    names = [name for name in sorted(types) if types[name] not in (tf.string, tf.bfloat16)]
    return {name: np.asarray(reader.get_tensor(name)) for name in names}


def main() -> None:
    tiny, sharded = FOLDER / "tiny" / "bert_model.ckpt", FOLDER / "sharded" / "model.ckpt-1000"
    outputs = write_pretrained(tiny, num_devices=1)
    write_pretrained(sharded, num_devices=2)
    write_types(FOLDER / "types" / "types.ckpt")
    write_partitioned(FOLDER / "partitioned" / "bert_model.ckpt")

    variables = as_tensorflow_reads(tiny)
    for name, values in as_tensorflow_reads(sharded).items():
        assert values.tobytes() == variables[name].tobytes(), name
    np.savez_compressed(FOLDER / "variables.npz", **variables)
    np.savez_compressed(FOLDER / "types.npz", **as_tensorflow_reads(FOLDER / "types" / "types.ckpt"))
    np.savez_compressed(FOLDER / "outputs.npz", **outputs)

    pieces = PIECES.split()
    assert len(pieces) == len(set(pieces)) == CONFIG["vocab_size"], len(pieces)
    (FOLDER / "tiny" / "bert_config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    (FOLDER / "tiny" / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
