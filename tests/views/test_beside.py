"""Views side by side: every mark is there, nothing overlaps, keys stay."""

from __future__ import annotations

import numpy as np

from tileworkbench.views.beside import Beside
from tileworkbench.views.error_map import error_map


def maps():
    want = np.zeros((4, 4))
    return error_map(want, want, tile=(2, 2)), error_map(want + 1, want, tile=(2, 2))


def test_pictures_stand_beside_each_other():
    a, b = maps()
    row = Beside((a, b)).scene()
    assert row.width > a.scene().width + b.scene().width
    assert len(row.marks) == len(a.scene().marks) + len(b.scene().marks)
    column = Beside((a, b), is_column=True).scene()
    assert column.height > a.scene().height + b.scene().height
    assert column.width == max(a.scene().width, b.scene().width)


def test_text_and_data_are_those_of_the_views():
    a, b = maps()
    both = Beside((a, b))
    assert str(a) in str(both) and str(b) in str(both)
    assert both.data == [a.data, b.data]
