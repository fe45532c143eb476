import pytest
import torch

from glassbert.interop.on_demand import OnDemand


def test_only_the_tensor_that_is_asked_for_is_read() -> None:
    read: list[str] = []

    def tensor(name: str) -> torch.Tensor:
        read.append(name)
        return torch.ones(len(name))

    found = OnDemand(("a", "bb"), tensor)
    assert (list(found), len(found), "bb" in found, "c" in found) == (["a", "bb"], 2, True, False)
    assert found.get("c") is None
    assert not read
    assert len(found["bb"]) == 2
    assert read == ["bb"]
    with pytest.raises(KeyError):
        found["c"]
