"""The text of the library: order, architectures, names; and that NVRTC takes all of it."""

from __future__ import annotations

import re

import pytest

from tileworkbench.device import FUNCTIONS, find, from_text, library, why_missing

ARCHS = ("sm_75", "sm_80", "sm_89", "sm_90a")


def test_callees_stand_first_and_once() -> None:
    text = library(["twb_sigmoid_f32", "twb_exp_f32", "twb_sigmoid_f32"], "sm_80", "gpu")
    order = re.findall(r"TWB_DEVICE float (twb_\w+)\(", text)
    assert order == ["twb_exp_f32", "twb_abs_f32", "twb_sigmoid_f32"]


def test_only_what_is_used_is_there() -> None:
    assert "twb_shfl" not in library(["twb_exp_f32"], "sm_80", "gpu")
    assert "#include" not in library(FUNCTIONS, "sm_90a", "gpu")


@pytest.mark.parametrize("where", ["gpu", "emulator"])
def test_every_function_has_a_text_and_a_sentence(where: str) -> None:
    for name, function in FUNCTIONS.items():
        assert re.search(rf"\b{name}\(", function.text(where)), name
        assert function.says.endswith("."), name
        assert function.name == name


def test_no_emulator_text_holds_assembly() -> None:
    assert "asm" not in library(FUNCTIONS, "sm_90a", "emulator")


def test_what_an_architecture_lacks() -> None:
    assert why_missing("twb_cp_async_commit", "sm_75") == "twb_cp_async_commit needs sm_80 or newer, not sm_75"
    assert why_missing("twb_cp_async_commit", "sm_100") == ""
    assert why_missing("twb_wgmma_m64n8k16_f32_f16_f16", "sm_100").endswith("exists on sm_90a only, not on sm_100")
    assert why_missing("twb_nothing", "sm_80") == "the device library has no function twb_nothing"
    with pytest.raises(KeyError):
        library(["twb_nothing"], "sm_80", "gpu")
    with pytest.raises(ValueError, match="needs sm_80"):
        library(["twb_cp_async_commit"], "sm_75", "gpu")
    with pytest.raises(ValueError, match="not 'cpu'"):
        library([], "sm_75", "cpu")


@pytest.mark.parametrize(
    ("name", "exists"),
    [
        ("twb_wgmma_m64n256k16_f32_bf16_bf16", True), ("twb_wgmma_rs_m64n8k8_f32_tf32_tf32", True), ("twb_wgmma_m64n24k32_s32_s8_u8", True),
        ("twb_wgmma_m64n64k16x4_f32_f16_f16", True), ("twb_wgmma_m64n64k16x17_f32_f16_f16", False), ("twb_wgmma_m64n40k32_s32_s8_u8", False), ("twb_wgmma_m64n264k16_f32_f16_f16", False), ("twb_wgmma_m64n8k16_f16_bf16_bf16", False),
        ("twb_wgmma_m64n8k32_f32_e4m3_s8", False), ("twb_wgmma_m64n12k16_f32_f16_f16", False), ("twb_wgmma_m64n8k8_f32_f16_f16", False),
    ],
)  # fmt: skip
def test_which_products_of_a_warp_group_exist(name: str, exists: bool) -> None:
    if exists:
        assert find(name).name == name
        assert from_text(f"{name}(d, a, b, 1);") == (name,)
    else:
        with pytest.raises(KeyError):
            find(name)
