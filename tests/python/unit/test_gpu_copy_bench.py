"""make bench-gpu's G1 to G8 without a GPU: the figures from the times, the judged rows and the rows
without a measurement. The copies themselves: test_gpu_copies_over_fake.py."""

import contextlib
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest


@pytest.fixture(scope="module")
def bench(root):
    sys.path.insert(0, str(root / "tests" / "bench"))
    import gpu_copy_bench

    yield gpu_copy_bench
    sys.path.remove(str(root / "tests" / "bench"))


@pytest.fixture
def without_g6(bench, monkeypatch):
    def cannot(_):
        raise bench.ArmsError("no GPU that larderd sees\nand more")

    monkeypatch.setitem(bench.MEASURE, "G6", cannot)


@pytest.fixture
def one_way(bench):
    return bench.gpu_one_way


@pytest.fixture
def both_ways(bench):
    return bench.gpu_both_ways


@pytest.fixture
def register(bench):
    return bench.gpu_register


def by_id(goals):
    return {goal["id"]: goal for goal in goals}


# ---- G1, G2


def test_ratios_are_medians_of_the_rounds_own(one_way):
    large, mine = one_way.LARGE, "auto, 8 SMs"
    # The link is half as fast in the last round: a ratio of medians would be 0.8, or 1.6.
    rounds = [
        {large: (100e9, 50e9), mine: (80e9, 25e9)},
        {large: (100e9, 50e9), mine: (80e9, 25e9)},
        {large: (50e9, 25e9), mine: (40e9, 12.5e9)},
    ]
    ceiling, row = one_way.rows_of(one_way.LARGE_PIECE, rounds)
    assert (ceiling["load_of_large"], ceiling["load_of_loop"]) == (1.0, None)
    assert (row["part"], row["piece_kib"], row["load_gb_s"], row["store_gb_s"]) == (
        "G1",
        2048,
        80.0,
        25.0,
    )
    assert row["judged"] == "loads"
    assert row["load_of_large"] == pytest.approx(0.8) and row["store_of_large"] == pytest.approx(
        0.5
    )
    assert one_way.judge([ceiling, row]) == [
        {"id": "G1.load_of_large", "value": 0.8, "op": ">=", "goal": 0.98, "met": False}
    ]


def test_small_pieces_are_judged_by_their_multiprocessors(one_way):
    rates = {
        one_way.LARGE: 50e9,
        one_way.LOOP: 5e9,
        one_way.BATCH: 30e9,
        one_way.BARE: 50e9,
        "batch": 20e9,
        "kernel, 4 SMs": 43e9,
        "kernel, 8 SMs": 45e9,
        "auto, 8 SMs": 45e9,
    }
    rounds = [{name: (rate, rate) for name, rate in rates.items()}]
    goals = by_id(one_way.judge(one_way.rows_of(16 << 10, rounds)))
    assert goals.pop("G2.16_kib.load_over_checksum_off") == {
        "id": "G2.16_kib.load_over_checksum_off",
        "value": 0.9,
    }
    assert {name: goal["met"] for name, goal in goals.items()} == {
        "G2.16_kib.load_4_sms": True,
        "G2.16_kib.load_8_sms": False,
        "G2.16_kib.load_over_batch": True,
        "G2.16_kib.load_over_loop": True,
    }
    assert goals["G2.16_kib.load_over_loop"]["value"] == 9.0
    assert "G2.32_kib.load_over_loop" not in by_id(one_way.judge(one_way.rows_of(32 << 10, rounds)))


def test_an_unavailable_strategy_has_a_row_with_the_reason(one_way, bench):
    why = "built without NVIDIA's compiler (make deps-cuda)"
    arms = FakeArms(without={"kernel": why, "bare kernel": why})
    rows = one_way.measure(arms, 16 << 10, one_way.Scale(64, 16, 2))
    missing = [row["way"] for row in rows if "not_measured" in row]
    assert missing == ["kernel, 4 SMs", "kernel, 8 SMs", one_way.BARE]
    assert one_way.judge(rows) == []  # these goals cannot be met
    (auto,) = [row for row in rows if row["way"] == "auto, 8 SMs"]
    assert auto["chosen"] == "as auto goes" and not any(
        "chosen" in row for row in rows if row is not auto
    ), "the choice of `auto` stands in its row"
    assert arms.checked == ["plain"] * 4 + ["batch", "auto"], (
        "the loaded bytes are compared, of every way, the ceilings too"
    )
    for row in rows:
        bench.show(row)


# ---- G3


def test_a_side_is_judged_by_the_time_in_which_both_ran(both_ways):
    # Loads of a byte a second until 20; stores begin at 10, with two a second, and go on alone,
    # faster.
    loads = [float(second) for second in range(1, 21)]
    stores = [10 + n / 2 for n in range(21)] + [20 + n / 100 for n in range(1, 50)]
    assert both_ways.rates(loads, stores, 1) == (pytest.approx(1.0), pytest.approx(2.0))
    with pytest.raises(both_ways.Void, match="ended only 2 copies"):
        both_ways.rates([1.0, 1.1], [float(n) for n in range(30)], 1)


def test_both_sides_together_are_judged(both_ways):
    ceiling, large, small = both_ways.keys()
    row = {ceiling: (40e9, 40e9), large: (50e9, 28e9), small: (30e9, 30e9)}
    rows = both_ways.rows_of([row, row, {**row, large: (1e9, 1e9)}])
    goals = by_id(both_ways.judge(rows))
    assert goals["G3.both_of_large"] == {
        "id": "G3.both_of_large",
        "value": 0.975,
        "op": ">=",
        "goal": 0.97,
        "met": True,
    }
    assert goals["G3.64_kib.both_of_large"] == {"id": "G3.64_kib.both_of_large", "value": 0.75}
    assert "0.975 of large copies" in both_ways.show(rows[1])


# ---- G6


def test_copies_by_larderd_are_judged(bench):
    attach = bench.gpu_attach
    row = attach.row_of(
        attach.BY_HANDLE, attach.Scale(), 1400.0, [40.0, 20.0, 60.0], 64, 0, [30.0, 120.0, 40.0]
    )
    assert (row["attach_ms"], row["attach_worst_ms"], row["back_ms"], row["back_worst_ms"]) == (
        40.0,
        60.0,
        40.0,
        120.0,
    )
    assert [(goal["id"], goal["met"]) for goal in attach.judge([row])] == [
        ("G6.attach_ms", True),
        ("G6.opened_by_copies", True),
        ("G6.back_ms", False),
        ("G6.first_attach_ms", False),
    ]
    assert "0 opened by 64 verified copies" in attach.show(row)
    by_descriptor = attach.row_of(
        attach.BY_DESCRIPTOR, attach.Scale(), 400.0, [60.0], 64, 0, [30.0]
    )
    assert [(goal["id"], goal["met"]) for goal in attach.judge([by_descriptor])] == [
        ("G6.descriptors.attach_ms", False),
        ("G6.descriptors.opened_by_copies", True),
        ("G6.descriptors.back_ms", True),
    ]


# ---- G8


def test_touching_and_registering_are_judged_together(register):
    rounds = [
        {register.SMALL: (0.2, 0.05), register.HUGE: (0.05, 0.05)},
        {register.SMALL: (0.3, 0.1), register.HUGE: (0.05, 0.05)},
        {register.SMALL: (0.2, 0.05), register.HUGE: (0.05, 0.05)},
    ]
    rows = register.rows_of(4 << 30, [2.0, 2.0, 2.0], rounds)
    assert [(row["page_kib"], round(row["times_faster"], 6)) for row in rows] == [
        (4, 8.0),
        (2048, 20.0),
    ]
    assert [goal["met"] for goal in register.judge(rows)] == [False, True]
    gigantic = register.rows_of(4 << 30, [2.0], [{register.GIGANTIC: (0.5, 0.5)}])
    assert register.judge(gigantic) == [{"id": "G8.1048576_kib.times_faster", "value": 2.0}], (
        "the goal compares the other two"
    )
    assert "cudaHostAlloc 2.000 s" in register.show(rows[0])


def test_huge_pages_are_asked_for_and_given_back(register, tmp_path):
    pool = tmp_path / "hugepages-2048kB"
    pool.mkdir()
    (pool / "nr_hugepages").write_text("3\n")
    (pool / "free_hugepages").write_text("1\n")  # and stays: the machine has no more
    with register.huge_pages(10 << 20, register.HUGE, tmp_path) as why:
        assert why == "only 1 of 5 pages of 2 MiB are free"
        assert (pool / "nr_hugepages").read_text() == "7"
    assert (pool / "nr_hugepages").read_text() == "3"
    with register.huge_pages(2 << 20, register.HUGE, tmp_path) as why:
        assert why == ""
    with register.huge_pages(1 << 30, register.GIGANTIC, tmp_path) as why:
        assert why.startswith("no pages of 1024 MiB can be had")
    with register.huge_pages(3 << 20, register.HUGE, tmp_path) as why:
        assert why == "3 MiB are no whole pages of 2 MiB"


def test_without_huge_pages_small_ones_are_measured(register, monkeypatch, bench):
    @contextlib.contextmanager
    def none(size, page):
        yield ""

    monkeypatch.setattr(register, "huge_pages", none)
    rows = register.measure(FakeArms(), register.Scale(1 << 22, 2))
    small, *huge = rows
    assert small["times_faster"] == pytest.approx(2.0)
    assert [row["page_kib"] for row in huge] == [2048, 1 << 20]
    assert {row["not_measured"] for row in huge} == {
        "no 4 MiB of huge pages: Cannot allocate memory"
    }
    for row in rows:
        bench.show(row)
    assert small["launches_not_measured"] == "this driver has no small work to launch"
    assert [goal["id"] for goal in register.judge(rows)] == ["G8.4_kib.times_faster"]


def test_the_cost_of_registration_for_others_is_shown(register, monkeypatch, bench):
    @contextlib.contextmanager
    def none(size, page):
        yield ""

    @contextlib.contextmanager
    def another(arms):
        took = {}
        yield took
        took.update(worst_us=300.0)

    monkeypatch.setattr(register, "huge_pages", none)
    monkeypatch.setattr(register, "neighbour", another)
    arms = FakeArms()
    arms.launch_us = [20.0, 100.0]
    small, *_ = register.measure(arms, register.Scale(1 << 22, 2, 0))
    assert (small["launch_alone_us"], small["launch_here_us"], small["launch_neighbour_us"]) == (
        20.0,
        100.0,
        300.0,
    )
    told = by_id(register.judge([small]))
    assert {name.rpartition(".")[2] for name in told} == {
        "times_faster",
        "launch_alone_us",
        "launch_here_us",
        "launch_neighbour_us",
    }
    assert (
        "the worst launch 20 us alone, 100 here and 300 in a neighbour meanwhile"
        in register.show(small)
    )


# ---- the whole


def children():
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def test_the_arena_is_memory_that_another_process_touched_and_keeps(bench):
    before = children()
    arena = bench_module("gpu_arms").arena
    with arena(3 << 20) as file:
        (keeper,) = set(children()) - set(before)
        assert "gpu_arena.py" in Path(f"/proc/{keeper}/cmdline").read_text()
        assert (os.fstat(file).st_size, os.fstat(file).st_blocks * 512) == (3 << 20, 3 << 20), (
            "all pages are present, and no code wrote here"
        )
    assert children() == before
    with pytest.raises(bench.ArmsError, match="of another process's memory"), arena(1 << 60):
        pass


class FakeArms:
    """Every pass takes a second. `without`: methods that cannot be had, and why."""

    device = "a fake device"

    def __init__(self, without=()):
        self.without, self.checked, self.launch_us = dict(without), [], None

    @contextlib.contextmanager
    def field(self, size, piece_bytes, chunk_bytes):
        arms = self

        class Field:
            bytes, chunk_bytes_ = size, chunk_bytes

            def scribble(self):
                self.scribbled = True

            def check(self):
                assert self.scribbled and self.loaded
                arms.checked.append(self.method)

            @contextlib.contextmanager
            def moves(self, method, blocks=0, plain_bytes=0):
                if method in arms.without:
                    raise bench_module("gpu_arms").ArmsError(arms.without[method])
                self.method = method
                moves = SimpleNamespace(
                    field=self,
                    one_way=self._one_way,
                    by_events=lambda direction: 0.5,
                    way=lambda: f"as {method} goes",
                )
                moves.verify = lambda callers: bench_module("gpu_arms").Moves.verify(moves, callers)
                yield moves

            def _one_way(self, direction, callers):
                self.loaded = getattr(self, "scribbled", False)
                return 1.0

        yield Field()

    def host_alloc_s(self, size):
        return 1.0

    @contextlib.contextmanager
    def launches(self):
        if self.launch_us is None:
            raise bench_module("gpu_arms").ArmsError("this driver has no small work to launch")
        took = {}
        yield took
        took.update(median_us=1.0, rare_us=2.0, worst_us=self.launch_us.pop(0))

    def touch_and_register_s(self, size, page_bytes):
        if page_bytes > 4096:
            raise bench_module("gpu_arms").ArmsError(
                "no 4 MiB of huge pages: Cannot allocate memory"
            )
        return 0.25, 0.25


def bench_module(name):
    return sys.modules[name]


def test_without_a_gpu_nothing_is_measured(bench, monkeypatch, tmp_path, capsys):
    def none(_):
        raise bench.ArmsError("no CUDA device: no libcuda.so.1")

    monkeypatch.setattr(bench, "Arms", none)
    monkeypatch.setenv("LARDER_LIBRARY", "/nowhere/liblarder.so")
    monkeypatch.setattr(bench, "BUILD", tmp_path)
    assert bench.main() == 0
    assert (
        capsys.readouterr().out
        == "not measured: G1, G2, G3, G4, G5, G6, G8 (no CUDA device: no libcuda.so.1)\n"
    )
    report = json.loads((tmp_path / "gpu_copies.json").read_text())
    assert {row["part"]: row["not_measured"] for row in report["rows"]} == dict.fromkeys(
        bench.PARTS, "no CUDA device: no libcuda.so.1"
    )


def test_a_library_that_cannot_be_loaded_is_no_missing_gpu(bench, monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "BUILD", tmp_path)
    monkeypatch.setenv("LARDER_LIBRARY", str(tmp_path / "liblarder.so"))
    with pytest.raises(OSError, match="libgpu_arms.so"):
        bench.main()


def test_a_part_that_fails_is_no_end_of_the_others(bench, monkeypatch, tmp_path, capsys):
    def fail(error):
        def measure(_):
            raise error

        return measure

    monkeypatch.setattr(bench, "Arms", lambda path: FakeArms())
    monkeypatch.setattr(bench, "BUILD", tmp_path)
    monkeypatch.setenv("LARDER_LIBRARY", "/nowhere/liblarder.so")
    monkeypatch.setenv("GPU_PARTS", "G2,G3,G5,G6,G1,G8")
    ended = bench.ProcessError(
        "larderd ended with status 1; its log larderd.log ends:\nstarting\nno space in /dev/shm"
    )
    for part, error in {
        "G2": bench_module("harness.bench").Void("a byte on the pages is wrong"),
        "G3": RuntimeError("CUDA error: unspecified launch failure\nmore"),
        "G5": ended,
        "G6": ConnectionRefusedError("refused"),
        "G8": KeyboardInterrupt(),
    }.items():
        monkeypatch.setitem(bench.MEASURE, part, fail(error))
    with pytest.raises(KeyboardInterrupt):
        bench.main()
    told = {
        row["part"]: row.get("failed", row.get("not_measured"))
        for row in json.loads((tmp_path / "gpu_copies.json").read_text())["rows"]
    }
    assert told == {
        "G2": "a byte on the pages is wrong",
        "G3": "CUDA error: unspecified launch failure",
        "G6": "refused",
        "G1": None,
        "G5": "larderd ended with status 1; its log larderd.log ends: no space in /dev/shm",
    }
    monkeypatch.setenv("GPU_PARTS", "G1,G2")
    assert bench.main() == 1
    assert "G2: FAILED: a byte on the pages is wrong" in capsys.readouterr().out


def test_the_report_lists_measured_and_unmeasured_rows(
    bench, without_g6, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(bench, "Arms", lambda path: FakeArms())
    monkeypatch.setattr(bench, "BUILD", tmp_path)
    monkeypatch.setenv("LARDER_LIBRARY", "/nowhere/liblarder.so")
    monkeypatch.setenv("LARDER_COMMIT", "abc1234")
    monkeypatch.setenv("GPU_PARTS", "G1,G6")
    assert bench.main() == 0
    (tmp_path / "gpu_copies.json").rename(tmp_path / "first.json")
    report = json.loads((tmp_path / "first.json").read_text())
    assert [row["part"] for row in report["rows"]] == ["G1"] * 9 + ["G6"]
    assert report["rows"][-1]["not_measured"] == "no GPU that larderd sees"
    assert all(
        (row["device"], row["commit"]) == (report["rows"][0]["device"], "abc1234")
        for row in report["rows"]
    )
    assert [goal["id"] for goal in report["goals"]] == [
        "G1.large_by_events_over_large",
        "G1.load_of_large",
    ]
    assert "G6: not measured: no GPU that larderd sees\n" in capsys.readouterr().out


def test_a_later_run_of_one_part_keeps_the_others(bench, without_g6, monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "Arms", lambda path: FakeArms())
    monkeypatch.setattr(bench, "BUILD", tmp_path)
    monkeypatch.setenv("LARDER_LIBRARY", "/nowhere/liblarder.so")
    for parts in ("G1,G6", "G6"):
        monkeypatch.setenv("GPU_PARTS", parts)
        assert bench.main() == 0
    report = json.loads((tmp_path / "gpu_copies.json").read_text())
    assert [row["part"] for row in report["rows"]] == ["G1"] * 9 + ["G6"]
    assert [goal["id"] for goal in report["goals"]] == [
        "G1.large_by_events_over_large",
        "G1.load_of_large",
    ]
