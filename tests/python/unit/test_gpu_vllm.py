"""A vLLM made small for one kind of GPU (.ci/gpu_vllm.py), and the benchmark over such a vLLM
(tests/bench/gpu_vllm_bench.py), without a GPU."""

import struct
import subprocess
import sys

import pytest


@pytest.fixture
def trimmer(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / ".ci"))
    import gpu_vllm

    return gpu_vllm


@pytest.fixture
def bench(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "tests" / "bench"))
    import gpu_vllm_bench

    return gpu_vllm_bench


def image(kind, capability, code):
    return (
        struct.pack("<HHIQQIIQ", kind, 0, 64, len(code), 0, 0, capability, 0)
        + bytes(64 - 40)
        + code
    )


def fat_binary(*images):
    body = b"".join(images)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def library_of(folder, *fat_binaries):
    """A shared library with fat binaries like nvcc's."""
    (folder / "fat").write_bytes(b"".join(fat_binaries))
    source = '.section .nv_fatbin,"a"\n.incbin "fat"\n.section .note.GNU-stack,"",@progbits\n'
    (folder / "fat.s").write_text(source)
    subprocess.run(["gcc", "-shared", "-o", "fat.so", "fat.s"], cwd=folder, check=True, timeout=60)
    return folder / "fat.so"


MACHINE_CODE, PTX = 2, 1


def test_the_code_of_other_gpus_is_zeroed(trimmer, tmp_path):
    own, old, ptx, oldest = (bytes([number]) * 96 for number in (1, 2, 3, 4))
    one = fat_binary(
        image(MACHINE_CODE, 80, old), image(MACHINE_CODE, 90, own), image(PTX, 90, ptx)
    )
    without = fat_binary(image(MACHINE_CODE, 75, oldest), image(PTX, 80, ptx))
    library = library_of(tmp_path, one, without)
    before = library.read_bytes()
    trimmer.trim(library, 90)
    after = library.read_bytes()
    assert len(after) == len(before)
    assert own in after and after.count(ptx) == 1, (
        "for a kernel without code for this GPU, the driver compiles the PTX"
    )
    assert old not in after and oldest not in after


def test_a_library_without_gpu_code_stays(trimmer, tmp_path):
    (tmp_path / "plain.c").write_text("int one(void) { return 1; }\n")
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-o", "plain.so", "plain.c"],
        cwd=tmp_path,
        check=True,
        timeout=60,
    )
    before = (tmp_path / "plain.so").read_bytes()
    trimmer.trim(tmp_path / "plain.so", 90)
    assert (tmp_path / "plain.so").read_bytes() == before


class FakeEngine:
    """Answers like a vLLM with the given hits."""

    def __init__(self, loads=True):
        self._loads, self._own, self._stored = loads, set(), set()

    def read(self):
        return {"ready": True}

    def ask(self, prompt=None, reset=False):
        if reset:
            self._own = set()
            return {}
        tokens, whole = tuple(prompt), len(prompt) // 256 * 256
        local = whole if tokens in self._own else 0
        cached = max(local, whole if self._loads and tokens in self._stored else 0)
        self._own.add(tokens)
        self._stored.add(tokens)
        return {"ttft_s": 0.1 if cached else 1.0, "cached": cached, "local": local}


def test_an_arm_that_does_not_load_is_no_end_of_the_other(bench, capsys):
    arms = [
        bench.Arm("larder", FakeEngine(), lambda: None),
        bench.Arm("native", FakeEngine(loads=False), lambda: None),
    ]
    for arm in arms:
        arm.wait_ready([1] * 256)
        for number in range(3):
            arm.ask([number] * 513, number > 0)
    larder, native = (arm.row() for arm in arms)
    assert (larder["cold_s"], larder["warm_s"], larder["own_s"]) == (1.0, 0.1, 0.1)
    assert native["failed"].startswith("of 513 tokens 0 were not computed")
    for row in (larder, native):
        bench.show({**row, "tokens": 513, "bytes": 1, "ceiling_s": 0.05})
    assert "V native  FAILED" in capsys.readouterr().out
    goals = bench.judge([{**larder, "ceiling_s": 0.05}, native])
    assert [(goal["id"], goal["value"]) for goal in goals] == [
        ("V.larder.cold_over_warm", 10.0),
        ("V.larder.warm_over_ceiling", 2.0),
    ]


def test_missing_vllm_or_gpu_is_reported(bench, monkeypatch, capsys):
    monkeypatch.setattr(bench, "not_here", lambda: f"no vLLM in {sys.executable}")
    assert bench.main() == 0
    assert capsys.readouterr().out == f"not measured: V (no vLLM in {sys.executable})\n"
