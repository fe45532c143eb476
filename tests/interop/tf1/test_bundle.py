"""The TF1 reader agrees with TensorFlow bit for bit, and refuses damage in one line that names the file.

The checkpoints come from TensorFlow itself: golden/tf1/make.py. What TensorFlow does not write (snappy, big
endian, damage under valid checksums) is made here by a writer of tables.
"""

import os
import shutil
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassbert.errors import ModelError
from glassbert.interop.tf1.bundle import Bundle, Skipped, find_checkpoint, to_huggingface
from glassbert.interop.tf1.crc32c import masked_crc32c
from glassbert.interop.tf1.table import Cursor, Message, read_table

GOLDEN = Path(__file__).parents[2] / "golden" / "tf1"
TINY = GOLDEN / "tiny" / "bert_model.ckpt"
MAGIC = bytes.fromhex("57fb808b247547db")
HEADER = bytes.fromhex("0801 1a020801")  # one shard; written by version 1
POOLER_BIAS = "bert/pooler/dense/bias"

Entries = Iterable[tuple[bytes, bytes]]


def varint(value: int) -> bytes:
    head = b""
    while value >= 0x80:
        head += bytes([value & 0x7F | 0x80])
        value >>= 7
    return head + bytes([value])


def sealed(contents: bytes, kind: int = 0) -> bytes:
    block = contents + bytes([kind])
    return block + masked_crc32c(np.frombuffer(block, np.uint8)).to_bytes(4, "little")


def block_contents(entries: Entries) -> bytes:
    """Join entries, sharing what a key has in common with the one before it."""
    contents, previous = b"", b""
    for key, value in entries:
        shared = 0
        while shared < min(len(key), len(previous)) and key[shared] == previous[shared]:
            shared += 1
        contents += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        previous = key
    return contents + bytes(4) + (1).to_bytes(4, "little")


def table(*blocks: Entries, kind: int = 0) -> bytes:
    """Write a table with the given data blocks."""
    return table_of(*(block_contents(entries) for entries in blocks), kind=kind)


def table_of(*blocks: bytes, kind: int = 0) -> bytes:
    """Write a table from the contents of its data blocks, under checksums that are right."""
    file, handles = b"", []
    for number, contents in enumerate(blocks):
        handles.append((b"%09d" % number, varint(len(file)) + varint(len(contents))))
        file += sealed(contents, kind)
    index = block_contents(handles)
    footer = varint(0) + varint(0) + varint(len(file)) + varint(len(index))
    return file + sealed(index) + footer.ljust(40, b"\0") + MAGIC


def entry(**fields: int | bytes) -> bytes:
    """Write a BundleEntryProto of four float32 zeros, with ``fields`` (f1=..., f2=...) replaced or added."""
    zeros_crc = masked_crc32c(np.zeros(16, np.uint8))
    values: dict[str, int | bytes] = {"f1": 1, "f2": b"\x12\x02\x08\x04", "f5": 16, "f6": zeros_crc} | fields
    message = b""
    for name, value in values.items():
        number = int(name.removeprefix("f"))
        if isinstance(value, bytes):
            message += varint(number << 3 | 2) + varint(len(value)) + value
        elif number == 6:
            message += varint(number << 3 | 5) + value.to_bytes(4, "little")
        else:
            message += varint(number << 3) + varint(value % 2**64)
    return message


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return a writer of a checkpoint: an index, and 16 zeros for data by default."""

    def write_checkpoint(index: bytes, data: bytes = bytes(16)) -> Path:
        prefix = tmp_path / "model.ckpt"
        Path(f"{prefix}.index").write_bytes(index)
        Path(f"{prefix}.data-00000-of-00001").write_bytes(data)
        return prefix

    return write_checkpoint


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """Return the prefix of a copy of the tiny checkpoint that a test may damage."""
    return Path(shutil.copytree(TINY.parent, tmp_path / "copied")) / TINY.name


def read_all(prefix: Path) -> dict[str, Any]:
    bundle = Bundle(prefix)
    return {name: bundle.tensor(name) for name in bundle.names()}


def as_tensorflow_reads(name: str) -> dict[str, Any]:
    with np.load(GOLDEN / f"{name}.npz") as file:
        return dict(file)


def assert_same_bits(actual: dict[str, Any], expected: dict[str, Any]) -> None:
    assert actual.keys() == expected.keys()
    for name, values in expected.items():
        assert actual[name].dtype == values.dtype, name
        assert actual[name].shape == values.shape, name
        assert actual[name].tobytes() == values.tobytes(), name


def refusal(read: Callable[[], object]) -> str:
    """Return the message of the ModelError that ``read`` must raise, which must be one line."""
    with pytest.raises(ModelError) as error:
        read()
    message = str(error.value)
    assert "\n" not in message
    return message


# What TensorFlow wrote


@pytest.mark.parametrize(
    "prefix", [TINY, GOLDEN / "sharded" / "model.ckpt-1000"], ids=["one file", "two files"]
)
def test_every_variable_is_read_as_tensorflow_reads_it(prefix: Path) -> None:
    assert_same_bits(read_all(prefix), as_tensorflow_reads("variables"))


def test_every_numpy_type_is_read_as_tensorflow_reads_it() -> None:
    bundle = Bundle(GOLDEN / "types" / "types.ckpt")
    expected = as_tensorflow_reads("types")
    assert set(bundle.names()) - set(expected) == {"a_string", "z_bfloat16"}
    assert_same_bits({name: bundle.tensor(name) for name in expected}, expected)


def test_shapes_are_known_without_reading_values() -> None:
    bundle = Bundle(TINY)
    assert bundle.shape("bert/embeddings/word_embeddings") == (40, 16)
    assert bundle.shape("global_step") == ()


def test_files_that_shrink_or_are_none_are_refused(tmp_path: Path) -> None:
    names = ("index", "data-00000-of-00001")
    for name in names:
        shutil.copy(f"{TINY}.{name}", tmp_path / f"a.{name}")
    bundle = Bundle(tmp_path / "a")
    os.truncate(tmp_path / "a.data-00000-of-00001", 10)
    with pytest.raises(ModelError, match="became shorter since it was opened"):
        bundle.tensor(POOLER_BIAS)
    for name in names:
        (tmp_path / f"a.{name}").unlink()
        os.mkfifo(tmp_path / f"a.{name}")
        with pytest.raises(ModelError, match="expected a file, got a pipe"):
            Bundle(tmp_path / "a")
        (tmp_path / f"a.{name}").unlink()
        shutil.copy(f"{TINY}.{name}", tmp_path / f"a.{name}")


@pytest.mark.parametrize("name", ["string", "bfloat16"])
def test_types_that_numpy_lacks_are_named(name: str) -> None:
    bundle = Bundle(GOLDEN / "types" / "types.ckpt")
    variable = {"string": "a_string", "bfloat16": "z_bfloat16"}[name]
    assert f"'{variable}' is of type {name}; readable are bool," in refusal(lambda: bundle.tensor(variable))


def test_a_partitioned_variable_is_refused() -> None:
    bundle = Bundle(GOLDEN / "partitioned" / "bert_model.ckpt")
    assert bundle.names() == ["bert/embeddings/word_embeddings"]
    assert "is cut into 2 slices" in refusal(lambda: bundle.tensor("bert/embeddings/word_embeddings"))


def test_a_variable_that_is_not_there_is_refused() -> None:
    assert "no variable 'bert/nothing' among its 49" in refusal(lambda: Bundle(TINY).tensor("bert/nothing"))


# The folder


def test_the_prefix_is_found_by_its_index(tmp_path: Path) -> None:
    assert find_checkpoint(TINY.parent) == TINY
    assert find_checkpoint(GOLDEN / "sharded") == GOLDEN / "sharded" / "model.ckpt-1000"
    assert find_checkpoint(tmp_path) is None
    assert find_checkpoint(tmp_path / "nowhere") is None


def test_several_checkpoints_in_a_folder_are_listed(tmp_path: Path) -> None:
    for name in ("model.ckpt-2.index", "bert_model.ckpt.index"):
        (tmp_path / name).touch()
    message = refusal(lambda: find_checkpoint(tmp_path))
    assert "bert_model.ckpt.index, model.ckpt-2.index" in message


# Hugging Face's names


def test_kernels_are_transposed_and_everything_else_is_not() -> None:
    theirs, _ = to_huggingface(Bundle(TINY))
    ours = as_tensorflow_reads("variables")
    query = "bert/encoder/layer_1/attention/self/query/kernel"
    np.testing.assert_array_equal(theirs["bert.encoder.layer.1.attention.self.query.weight"], ours[query].T)
    np.testing.assert_array_equal(
        theirs["cls.seq_relationship.weight"], ours["cls/seq_relationship/output_weights"]
    )
    words = "bert/embeddings/word_embeddings"
    np.testing.assert_array_equal(theirs["bert.embeddings.word_embeddings.weight"], ours[words])


def test_converted_tensors_are_contiguous_writable_and_independent_of_the_file() -> None:
    tensors, _ = to_huggingface(Bundle(TINY))
    assert len(tensors) == 46
    for name, tensor in tensors.items():
        assert tensor.flags.c_contiguous, name
        assert tensor.flags.owndata, name
        assert tensor.flags.writeable, name


def test_optimizer_state_is_skipped_and_named() -> None:
    _, skipped = to_huggingface(Bundle(TINY))
    slots = ("bert/pooler/dense/kernel/adam_m", "bert/pooler/dense/kernel/adam_v", "global_step")
    assert skipped == Skipped(optimizer=slots, unexpected=())


def test_unexpected_variables_are_reported(write: Callable[..., Path]) -> None:
    names = [b"", b"bert/new_part/kernel", b"output_bias"]
    prefix = write(table([(name, entry() if name else HEADER) for name in names]))
    tensors, skipped = to_huggingface(Bundle(prefix))
    assert list(tensors) == ["classifier.bias"]
    assert skipped == Skipped(optimizer=(), unexpected=("bert/new_part/kernel",))


def test_a_checkpoint_of_another_model_is_refused() -> None:
    message = refusal(lambda: to_huggingface(Bundle(GOLDEN / "types" / "types.ckpt")))
    assert "holds no variable of a TF1 BERT; its first are 'a_bool', 'a_double', 'a_float'" in message


@pytest.mark.slow
def test_the_converted_model_computes_in_transformers_what_tensorflow_computed() -> None:
    import torch
    from transformers import BertConfig, BertForPreTraining

    tensors, _ = to_huggingface(Bundle(TINY))
    model = BertForPreTraining(BertConfig.from_json_file(TINY.parent / "bert_config.json")).eval()
    state = {name: torch.from_numpy(tensor) for name, tensor in tensors.items()}
    report = model.load_state_dict(state, strict=False)
    assert not report.unexpected_keys
    assert set(report.missing_keys) <= {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}
    model.tie_weights()
    with np.load(GOLDEN / "outputs.npz") as expected, torch.no_grad():
        inputs = [torch.from_numpy(expected[name]) for name in ("ids", "mask", "segments")]
        outputs = model(input_ids=inputs[0], attention_mask=inputs[1], token_type_ids=inputs[2])
        for name in ("prediction_logits", "seq_relationship_logits"):
            np.testing.assert_allclose(outputs[name].numpy(), expected[name], atol=1e-5, rtol=0)


# Tables that TensorFlow does not write for so small a model


def test_a_table_of_many_blocks_is_read_whole(write: Callable[..., Path]) -> None:
    names = [b"layer_%03d" % number for number in range(40)]
    blocks = [[(b"", HEADER)]] + [[(name, entry()) for name in names[i : i + 7]] for i in range(0, 40, 7)]
    bundle = Bundle(write(table(*blocks)))
    assert bundle.names() == [name.decode() for name in names]
    np.testing.assert_array_equal(bundle.tensor("layer_039"), np.zeros(4, np.float32))


def test_varints_and_negative_integers_are_read_as_protobuf_writes_them() -> None:
    for value in (0, 127, 128, 300, 2**64 - 1):
        assert Cursor(varint(value)).varint() == value
    assert Cursor(b"\xff" * 9 + b"\x7f").varint() == 2**64 - 1  # bits beyond 64 are dropped
    assert Message.parse(b"\x08" + varint(2**64 - 5)).integer(1) == -5


@pytest.mark.parametrize(
    ("index", "complaint"),
    [
        (b"", "0 bytes are too few for the 48 of a footer"),
        (bytes(100), "the last 8 bytes are not those of a TensorFlow index file"),
        (table([(b"", HEADER)], kind=1), "compressed with snappy"),
        (table([(b"", HEADER)], kind=7), "has blocks of unknown kind 7"),
        (table([(b"a", entry())]), "the first entry is not a header"),
        (table([(b"", b"\x08\x01\x10\x01")]), "written on a big-endian machine"),
        (table([(b"", b"\x08\x01\x1a\x02\x10\x02")]), "needs a reader of bundle version 2"),
        (table([(b"", b"")]), "the header counts 0 data files"),
        (table([(b"", b"\x0b")]), "protobuf wire type 3 is unknown"),
        (table([(b"", b"\x08" + b"\xff" * 10)]), "a varint is longer than 10 bytes"),
        (table([(b"", b"\x1a\x09")]), "9 bytes are announced where 0 are left"),
        (table([(b"", HEADER), (b"b", entry())], [(b"a", entry())]), "key b'a' comes after b'b'"),
        (table([(b"", HEADER), (b"\xff", entry())]), "key b'\\xff' is not UTF-8"),
        (table([(b"", HEADER), (b"k" * 1025, entry())]), "a key has 1025 bytes"),
        (table_of(b"\x05\x01\x00a" + bytes(4)), "a key shares 5 bytes with one of 0"),
        (table_of(b"\x09\0\0\0"), "a block of 4 bytes cannot hold 9 restarts"),
        (table_of(b""), "a block of 0 bytes cannot hold 0 restarts"),
        (b"\0\0\x90\x4e\x05".ljust(40, b"\0") + MAGIC, "a block of 5 bytes at 10000 goes beyond"),
    ],
)
def test_a_broken_index_is_refused(write: Callable[..., Path], index: bytes, complaint: str) -> None:
    prefix = write(index)
    message = refusal(lambda: Bundle(prefix))
    assert message.startswith(f"{prefix}.index: ")
    assert complaint in message


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"f5": 12}, "index: 'x' has 12 bytes, which is not float32 of shape (4,)"),
        ({"f2": b"\x12\x02\x08\x05"}, "index: 'x' has 16 bytes, which is not float32 of shape (5,)"),
        ({"f2": b"\x12\x0b\x08" + varint(2**64 - 1)}, "index: 'x' has the impossible shape (-1,)"),
        (
            {"f2": b"\x12\x00\x12\x0a\x08" + varint(2**62), "f5": 0},
            f"index: 'x' has the impossible shape (0, {2**62})",
        ),
        ({"f2": b"\x12\x02\x08\x01" * 40}, "index: 'x' has the impossible shape (1, 1,"),
        ({"f3": 1}, "index: 'x' lies in data file 1 of 1"),
        ({"f4": -8}, "index: 'x' takes 16 bytes at -8"),
        ({"f4": 8}, "data-00000-of-00001: 'x' should end at 24 of the file's 16 bytes"),
        (
            {"f2": b"\x12\x06\x08" + varint(2**34), "f5": 2**36},
            f"'x' should end at {2**36} of the file's 16 bytes",
        ),
    ],
)
def test_an_entry_that_cannot_be_true_is_refused_before_any_tensor_is_read(
    write: Callable[..., Path], fields: dict[str, int | bytes], complaint: str
) -> None:
    prefix = write(table([(b"", HEADER), (b"x", entry(**fields))]))
    assert complaint in refusal(lambda: Bundle(prefix))


def test_an_unknown_type_is_named_by_its_number(write: Callable[..., Path]) -> None:
    bundle = Bundle(write(table([(b"", HEADER), (b"x", entry(f1=99))])))
    assert "'x' is of type TensorFlow's number 99" in refusal(lambda: bundle.tensor("x"))


# Damage


def test_a_flipped_bit_in_a_tensor_is_found_and_its_file_named(copied: Path) -> None:
    path = Path(f"{copied}.data-00000-of-00001")
    data = bytearray(path.read_bytes())
    data[0] ^= 1  # the file's first variable
    path.write_bytes(data)
    bundle = Bundle(copied)
    first = "bert/embeddings/LayerNorm/beta"
    assert refusal(lambda: bundle.tensor(first)).startswith(f"{path}: '{first}' fails its checksum")
    assert bundle.tensor(POOLER_BIAS).shape == (16,)


def test_a_flipped_bit_in_the_index_is_found(copied: Path) -> None:
    path = Path(f"{copied}.index")
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    assert "fails its checksum" in refusal(lambda: Bundle(copied))


@pytest.mark.parametrize("suffix", ["index", "data-00000-of-00001"])
def test_a_missing_file_is_named(copied: Path, suffix: str) -> None:
    Path(f"{copied}.{suffix}").unlink()
    assert refusal(lambda: Bundle(copied)).startswith(f"{copied}.{suffix}: missing")


def test_a_missing_second_shard_is_named(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "sharded", tmp_path, dirs_exist_ok=True)
    path = tmp_path / "model.ckpt-1000.data-00001-of-00002"
    path.unlink()
    assert refusal(lambda: Bundle(tmp_path / "model.ckpt-1000")).startswith(f"{path}: missing")


def test_a_folder_in_place_of_a_file_is_refused(copied: Path) -> None:
    Path(f"{copied}.index").unlink()
    Path(f"{copied}.index").mkdir()
    assert "expected a file, got a folder" in refusal(lambda: Bundle(copied))


def complaint_about(read: Callable[[], object]) -> str | None:
    """Return the message of a ModelError, or None if ``read`` went well; anything else is a failure."""
    try:
        read()
    except ModelError as error:
        return str(error)
    return None


def flip_bytes(data: bytearray, random: np.random.Generator) -> None:
    for position in random.integers(0, len(data), random.integers(1, 4)):
        data[position] ^= int(random.integers(1, 256))


@pytest.mark.parametrize("suffix", ["index", "data-00000-of-00001"])
def test_random_damage_is_refused_or_does_not_matter(copied: Path, suffix: str) -> None:
    expected = as_tensorflow_reads("variables")
    path = Path(f"{copied}.{suffix}")
    original = path.read_bytes()
    random = np.random.default_rng(7)
    complaints = []
    for mutation in range(150):
        data = bytearray(original)
        if mutation % 5 == 0:
            data = data[: random.integers(len(data))]
        else:
            flip_bytes(data, random)
        path.write_bytes(data)
        complaints.append(complaint_about(lambda: assert_same_bits(read_all(copied), expected)))
    refused = [complaint for complaint in complaints if complaint]
    assert len(refused) > 140
    assert not any("\n" in complaint for complaint in refused)


def complaints_about_resealed_damage(prefix: Path, num_mutations: int) -> list[str | None]:
    """Damage the entries of an index under checksums that are right again, and read."""
    path = Path(f"{prefix}.index")
    contents = block_contents(list(read_table(np.frombuffer(path.read_bytes(), np.uint8))))
    random = np.random.default_rng(8)
    complaints = []
    for _ in range(num_mutations):
        damaged = bytearray(contents)
        flip_bytes(damaged, random)
        path.write_bytes(table_of(bytes(damaged)))
        complaints.append(complaint_about(lambda: read_all(prefix)))
    return complaints


def test_random_damage_under_valid_checksums_is_refused_where_it_contradicts_itself(copied: Path) -> None:
    complaints = [complaint for complaint in complaints_about_resealed_damage(copied, 300) if complaint]
    # The others changed a letter of a name or a type for one of the same size.
    assert len(complaints) > 150
    assert not any("\n" in complaint for complaint in complaints)


def test_random_damage_under_valid_checksums_cannot_fill_the_memory(copied: Path) -> None:
    tracemalloc.start()
    complaints_about_resealed_damage(copied, 30)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000
