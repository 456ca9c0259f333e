"""The error map: which tiles are wrong, by how much, and what counts as wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tileworkbench.views.error_map import ErrorMap, error_map, rounding


def wrong_at(*places, shape=(8, 8), by=0.5):
    want = np.ones(shape)
    got = want.astype(np.float32)
    for place in places:
        got[place] += by
    return got, want


def test_the_tile_of_an_error_is_the_only_wrong_one():
    got, want = wrong_at((5, 2))
    (v,) = error_map(got, want, tile=(4, 2)).variants
    assert v.errors.shape == (2, 4)
    assert np.argwhere(v.errors > v.allowed).tolist() == [[1, 1]]
    assert v.worst == v.relative[1, 1] == 0.5


def test_rounding_is_no_error():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((64, 256)), rng.standard_normal((256, 64))
    got = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float32)
    assert error_map(got, a @ b, tile=(16, 16), length=256).variants[0].wrong_tiles == 0
    assert rounding(got, a @ b, 256) < 1e-3


def test_nan_and_infinity_are_wrong():
    for bad in (np.nan, np.inf):
        got, want = wrong_at()
        got[0, 0] = bad
        (v,) = error_map(got, want, tile=(4, 4)).variants
        assert v.wrong_tiles == 1
        assert "NaN or infinity" in v.sentence


def test_ragged_tiles_and_leading_dims():
    got, want = wrong_at((1, 2, 6), shape=(2, 3, 7))
    (v,) = error_map(got, want, tile=(3, 4)).variants
    assert v.errors.tolist() == [[0, 0], [0, 0.5]]


def test_text_data_and_picture_agree():
    got, want = wrong_at((0, 0), (7, 7))
    view = error_map({"good": want.astype(np.float32), "bad": got}, want, tile=(4, 4))
    assert [d["wrong"] for d in view.data] == [0, 2]
    assert "bad: 2 of 4 tiles wrong, largest error 0.5" in str(view)
    words = {m.text for m in view.scene().marks if hasattr(m, "text")}
    assert {"0 of 4 tiles wrong", "2 of 4 tiles wrong"} <= words
    assert view.png()[:4] == b"\x89PNG"


def test_live_frames_switch_between_results():
    got, want = wrong_at((0, 0))
    live = error_map({"good": want, "bad": got}, want, tile=(4, 4)).live()
    assert [f["label"] for f in live["frames"]] == ["all", "good", "bad"]
    assert isinstance(error_map(got, want, tile=(4, 4)).live()["frames"], list)


def test_many_tiles_are_joined_and_labelled():
    got, want = wrong_at((0, 0), shape=(400, 400))
    view = error_map(got, want, tile=(2, 2))
    assert isinstance(view, ErrorMap)
    assert any("cells are joined: 40000 tiles" in getattr(m, "text", "") for m in view.scene().marks)


def test_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"result has shape \(2, 2\), the reference \(2, 3\)"):
        error_map(np.ones((2, 2)), np.ones((2, 3)), tile=(1, 1))
