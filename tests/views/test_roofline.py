"""The roofline: what it shows, that its frame stands still, and that its labels can be read."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from views.made_up import report

from tileworkbench.base.machine import REFERENCE_CPU, Machine, find_machine
from tileworkbench.model.report import Report
from tileworkbench.views.crumbs import Crumb, Trail, numbered
from tileworkbench.views.labels import box_of, clashes
from tileworkbench.views.roofline import WIDTH, X_TITLE, Y_TITLE, Roofline
from tileworkbench.views.scene import AnyMark, Dot, Path, Rect, Scene, Text

RUNS = (0.0125, 0.0135, 0.0136)


def dots(scene: Scene, group: str) -> list[Dot]:
    return [m for m in scene.marks if isinstance(m, Dot) and m.group == group]


def words(scene: Scene) -> list[Text]:
    return [m for m in scene.marks if isinstance(m, Text)]


def keyed(scene: Scene, key: str) -> list[AnyMark]:
    return [m for m in scene.marks if m.key == key]


def test_data_are_roofs_and_one_dot_for_each_level() -> None:
    data = Roofline.of(report(seconds=(0.012, 0.0125, 0.013))).data
    assert [r["level"] for r in data["roofs"]] == ["L1", "L2", "L3", "DRAM"]
    assert [round(r["ridge"], 2) for r in data["roofs"]] == [0.85, 1.43, 7.96, 14.33]
    measured = [d for d in data["dots"] if d["measured"]]
    assert [(d["level"], round(d["intensity"], 2)) for d in measured] == [("L1", 5.0), ("L2", 20.0), ("L3", 40.0), ("DRAM", 166.67)]
    assert {d["rate"] for d in measured} == {2e9 / 0.0125}, "all dots share one height"
    ghosts = [d for d in data["dots"] if not d["measured"]]
    assert len(ghosts) == 4 and {d["rate"] for d in ghosts} == {2e9 / report().predicted.value}


def test_the_frame_is_the_machine_s() -> None:
    """No kernel moves the axes, full decades on both; two machines differ."""
    one, two = Roofline.of(report()), Roofline.of(report(flops=10, asked=10**9, seconds=(3.0,)))
    assert one.frame == two.frame
    assert all(math.log10(edge) == round(math.log10(edge)) for edge in one.frame)
    assert Roofline.of(report(machine=find_machine("laptop"), threads=8)).frame != one.frame


def test_axis_titles_and_names_are_in_the_svg() -> None:
    text = Roofline.of(report(seconds=(0.012,))).svg()
    assert "<script" not in text
    assert text == Roofline.of(report(seconds=(0.012,))).svg(), "the same value gives the same file"
    for wanted in (X_TITLE, Y_TITLE, "DRAM 15 GB/s", "215 GFLOP/s float32", "167 GFLOP/s measured"):
        assert wanted in text, wanted


def test_the_text_twin_holds_the_numbers() -> None:
    assert str(Roofline.of(report(seconds=(0.05,)), report(seconds=(0.0125, 0.0125, 0.0125)))).splitlines() == [
        "made_up (m=1024) on reference CPU (Sapphire Rapids, 2 cores), 1 thread",
        f"made_up: 160 GFLOP/s, measured, {_predicted_rate(report())} predicted; peak 215 GFLOP/s (float32)",
        "level  bandwidth  ridge  FLOP/byte   roof there  reached",
        "-----  ---------  -----  ---------  -----------  -------",
        "L1      254 GB/s  0.846          5  215 GFLOP/s     13 %",
        "L2      150 GB/s   1.43         20  215 GFLOP/s      5 %",
        "L3       27 GB/s   7.96         40  215 GFLOP/s     15 %",
        "DRAM     15 GB/s   14.3        167  215 GFLOP/s      6 %",
        "run 1: 50 ms, 40 GFLOP/s with block_m = 64",
    ]


def _predicted_rate(r: Report) -> str:
    return str(r.rate)


def test_ghost_and_truth_are_both_shown_at_their_own_heights() -> None:
    """Predicted points are hollow, measured ones filled; one without a run shows only ghosts."""
    both = Roofline.of(report(seconds=RUNS)).scene()
    ghosts, truth = dots(both, "ghost"), dots(both, "truth")
    assert len(ghosts) == 4 and all(d.is_hollow for d in ghosts)
    assert len(truth) == 4 and not any(d.is_hollow for d in truth)
    assert len({d.y for d in ghosts}) == len({d.y for d in truth}) == 1 and ghosts[0].y < truth[0].y, "the prediction is faster, so higher"
    assert [d.x for d in ghosts] == [d.x for d in truth]
    alone = Roofline.of(report()).scene()
    assert len(dots(alone, "ghost")) == 4 and not dots(alone, "truth")


def test_points_stand_where_their_numbers_say() -> None:
    """x and y of each dot, read back through the axes of the picture, give the report's intensity and rate."""
    r = report(seconds=(0.0125,))
    scene = Roofline.of(r).scene()
    x_low, x_high, y_low, y_high = Roofline.of(r).frame
    ticks = {m.text: m for m in words(scene) if m.colour == "faint" and m.size == 10.5}
    left, right = ticks["0.1"].x, ticks["1000"].x
    lines = [m for m in scene.marks if isinstance(m, Path) and m.stroke == "grid" and m.points[0][1] == m.points[1][1]]
    bottom, top = max(m.points[0][1] for m in lines), min(m.points[0][1] for m in lines)
    for dot, point in zip(dots(scene, "truth"), r.points, strict=True):
        x = x_low * (x_high / x_low) ** ((dot.x - left) / (right - left))
        y = y_low * (y_high / y_low) ** ((bottom - dot.y) / (bottom - top))
        assert math.isclose(x, point.intensity, rel_tol=1e-6) and math.isclose(y, point.rate.value, rel_tol=1e-6)


def test_stated_roofs_are_dashed_and_measured_ones_solid() -> None:
    def roofs(r: Report) -> list[Path]:
        return [m for m in Roofline.of(r).scene().marks if isinstance(m, Path) and m.key.startswith("level:") and m.width >= 1.6]

    assert len(roofs(report())) == 5 and all(m.dash for m in roofs(report()))
    timed = replace(
        REFERENCE_CPU,
        levels=tuple(replace(x, core=replace(x.core, measured=True)) if x.core else x for x in REFERENCE_CPU.levels),
        peaks=tuple(replace(p, core=replace(p.core, measured=True)) for p in REFERENCE_CPU.peaks),
    )
    assert all(not m.dash for m in roofs(report(machine=timed)))
    assert "measured" in keyed(Roofline.of(report(machine=timed)).scene(), "level:L2")[0].tip


def test_theory_is_dashed_beside_what_was_measured() -> None:
    """Where the machine knows both, both are drawn: the measured roof solid, the theoretical one dashed above it; near ones are not drawn twice."""

    def timed(factor: float) -> Machine:
        slower = lambda q: replace(q, value=q.value * factor, measured=True)
        levels = tuple(replace(x, core=slower(x.core)) if x.core else x for x in REFERENCE_CPU.levels)
        peaks = tuple(replace(p, core=slower(p.core)) for p in REFERENCE_CPU.peaks)
        return replace(REFERENCE_CPU, levels=levels, peaks=peaks, theory=REFERENCE_CPU)

    view = Roofline.of(report(machine=timed(0.7), seconds=(0.02,)))
    roofs = [m for m in keyed(view.scene(), "level:L3") if isinstance(m, Path)]
    assert [bool(m.dash) for m in roofs] == [False, True] and roofs[1].points[0][1] < roofs[0].points[0][1]
    assert "in theory" in roofs[1].tip
    assert {(x["level"], x["kind"]) for x in view.data["more_roofs"]} == {(n, "theory") for n in ("L1", "L2", "L3", "DRAM", "compute")}
    assert Roofline.of(report(machine=timed(0.99))).data["more_roofs"] == []


def test_the_spread_of_runs_is_drawn_and_unstable_runs_are_named() -> None:
    """The bar reaches from the slower quarter to the best run, and is missing where runs agree."""
    wild = Roofline.of(report(seconds=(0.010, 0.0125, 0.02)))
    bars = [m for m in wild.scene().marks if isinstance(m, Path) and m.group == "truth" and m.width == 1.2 and m.points[0][0] == m.points[1][0]]
    assert len(bars) == 4
    assert any("unstable" in w.text for w in words(wild.scene()))
    calm = Roofline.of(report(seconds=(0.0125, 0.0125, 0.0125))).scene()
    assert not [m for m in calm.marks if isinstance(m, Path) and m.group == "truth" and m.width == 1.2 and m.points[0][0] == m.points[1][0]]


def test_a_point_above_its_roof_carries_a_badge_with_causes() -> None:
    view = Roofline.of(report(seconds=(0.001,)))
    (headline,) = [w for w in words(view.scene()) if "above a roof" in w.text]
    assert headline.colour == "warning" and view.data["above"]
    (badge,) = keyed(view.scene(), "above")
    assert "nearer cache" in badge.tip and "narrower dtype" in badge.tip
    assert len(view.live()["details"]["above"]["rows"]) == 4
    assert not keyed(Roofline.of(report(seconds=RUNS)).scene(), "above")


def test_points_off_the_chart_sit_on_its_border_with_their_numbers() -> None:
    scene = Roofline.of(report(flops=10, asked=10**9, l2=1e9, l3=1e9, dram=1e9, seconds=(3.0,))).scene()
    assert any("(off the chart)" in w.text for w in words(scene))
    assert all(0 <= d.x <= WIDTH and 0 <= d.y <= scene.height for d in dots(scene, "truth"))


def test_every_run_leaves_a_crumb_with_schedule_and_source() -> None:
    """Its key, tip and details say what was different; the value keeps the whole source."""
    first = Crumb(1, report(seconds=(0.05,)), {"block_m": 32, "stages": 2}, "a = 1\nrun(a)\n")
    second = Crumb(2, report(seconds=(0.03,)), {"block_m": 64}, "a = 2\nrun(a)\n")
    view = Roofline(report(seconds=RUNS), (first, second), source="a = 2\nrun(a)\n")
    tip = keyed(view.scene(), "crumb:1")[0].tip
    assert "Run 1: 50 ms" in tip and "block_m was 32, is 64" in tip and "stages was 2, is -" in tip
    assert "same as now" in keyed(view.scene(), "crumb:2")[0].tip
    tables = view.live()["details"]["crumb:1"]
    assert ["block_m", "32", "64"] in tables[0]["rows"]
    assert ["-a = 1"] in tables[1]["rows"] and ["+a = 2"] in tables[1]["rows"]
    assert len(view.live()["details"]["crumb:2"]) == 1, "an equal source has no differences to show"
    assert [c["source"] for c in view.data["crumbs"]] == ["a = 1\nrun(a)\n", "a = 2\nrun(a)\n"]
    assert {w.text for w in words(view.scene()) if w.key.startswith("crumb:")} == {"1", "2"}


def test_reports_become_numbered_crumbs() -> None:
    kept = Crumb(7, report(), {}, "")
    assert [c.number for c in numbered((report(), report()))] == [1, 2]
    assert [c.number for c in numbered((kept, report()))] == [7, 8]
    with pytest.raises(ValueError, match="needs a report"):
        Roofline.of()


def test_a_trail_numbers_runs_and_forgets_the_oldest() -> None:
    trail = Trail(most=2)
    assert trail.add(report(), "one") == ()
    assert [c.number for c in trail.add(report(), "two")] == [1]
    assert [c.source for c in trail.add(report(machine=find_machine("laptop")))] == [], "another machine's runs are not comparable"
    assert [(c.number, c.source) for c in trail.add(report())] == [(2, "two")]
    assert [c.number for c in trail.crumbs] == [3, 4]


def test_a_kernel_without_flop_shows_bytes_a_second_instead() -> None:
    """A row for each level, as long as the share of the level's roof that is reached."""
    r = report(flops=0, seconds=(0.01, 0.0101))
    scene = Roofline.of(r).scene()
    assert any("No floating-point work" in w.text for w in words(scene))
    for level in r.levels:
        track, bar = (m for m in keyed(scene, f"level:{level.name}") if isinstance(m, Rect))
        assert math.isclose(bar.width / track.width, r.shares[level.name], rel_tol=1e-6)
        assert f"{level.roof}" in bar.tip
    assert not dots(scene, "truth") and clashes(words(scene)) == []


def test_marks_with_a_key_have_details_and_tips_are_sentences() -> None:
    view = Roofline.of(report(seconds=(0.05,)), report(seconds=RUNS))
    live = view.live()
    keys = {m.key for m in view.scene().marks if m.key}
    assert keys == set(live["details"])
    assert {"level:L1", "level:DRAM", "level:compute", "crumb:1"} <= keys
    assert all(m.tip.endswith((".", "now.")) for m in view.scene().marks if m.tip)
    assert live["module"] == "scene" and len(json.dumps(live)) < 60_000


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_png_is_small(theme: str) -> None:
    assert len(Roofline.of(report(seconds=(0.05,)), report(seconds=RUNS)).png(theme)) < 40_000


@pytest.mark.parametrize("name", ["h200", "l4", "rtx-4090"])
def test_a_gpu_s_levels_have_their_own_roofs(name: str) -> None:
    machine = find_machine(name)
    scene = Roofline.of(report(machine=machine, threads=machine.cores, l2=2e8, l3=0, dram=1e8)).scene()
    named = {w.text.split()[0] for w in words(scene) if w.angle and w.key}
    assert {"shared", "L2", "DRAM"} <= named and clashes(words(scene)) == []


@settings(max_examples=60, deadline=None)
@given(
    st.floats(-1.2, 2.8),
    st.lists(st.floats(0, 1.5), min_size=3, max_size=3),
    st.floats(0.02, 1.6),
    st.booleans(),
    st.sampled_from(["float32", "float16>float32"]),
    st.lists(st.floats(0.01, 1.0), max_size=5),
    st.sampled_from(["reference", "laptop", "h200", "t4"]),
)
def test_labels_do_not_cover_one_another(
    first: float, steps: list[float], share: float, has_run: bool, dtype: str, earlier: list[float], name: str
) -> None:
    """Dots anywhere in the frame, near together or apart, high or low, with crumbs: no two level texts overlap, and none leaves the picture."""
    flops, machine = 10**9, find_machine(name)
    bytes_ = [flops / 10 ** (first + sum(steps[:i])) for i in range(4)]

    def run(part: float) -> Report:
        best = flops / (part * machine.peak(dtype, machine.cores).value * 1e9)
        seconds = (best, best * 1.2, best * 1.5) if has_run else ()
        return report(flops, int(bytes_[0]), *bytes_[1:], seconds=seconds, dtype=dtype, machine=machine, threads=machine.cores)

    scene = Roofline.of(*(run(part) for part in earlier), run(share)).scene()
    assert clashes(words(scene)) == []
    boxes = [box_of(w) for w in words(scene) if not w.angle]
    assert all(box[0] >= -1 and box[2] <= scene.width + 1 and box[1] >= -1 and box[3] <= scene.height + 1 for box in boxes)
