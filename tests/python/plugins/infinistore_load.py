"""run_load: several larder-infinistore beside each other put, get and remove the same few chunks,
for the test and the benchmark of the server's life."""

import hashlib
import random
import threading

from larderd_side import EXISTS, GET, NOT_FOUND, OK, PUT, LarderdSide, key

NODES, CHUNKS = 3, 8
SIZE = 256 << 10


def content(name):
    word = hashlib.sha256(name.encode()).digest()
    return word * (SIZE // len(word))


def run_load(store, folder, url, calls):
    """Moves of single chunks, `calls` in all. Returns the counts of the puts, gets, hits and wrong
    bytes."""
    counts = {"puts": 0, "gets": 0, "hits": 0, "removals": 0, "wrong": 0}
    lock, failures = threading.Lock(), []

    def node(number):
        larderd = LarderdSide(folder / f"load{number}.sock", url, 64 << 20)
        try:
            with store.start_plugin(larderd.path):
                larderd.accept()
                larderd.wait_state(True)
                found = drive(larderd, random.Random(number), calls // NODES + 1)
            with lock:
                for name, count in found.items():
                    counts[name] += count
        except BaseException as error:  # a thread's failure must fail the caller
            failures.append(error)
        finally:
            larderd.close()

    threads = [threading.Thread(target=node, args=(number,)) for number in range(NODES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return counts


def drive(larderd, chance, calls):
    """Batches of puts beside gets, so that a plug-in has several of both under way."""
    found = {"puts": 0, "gets": 0, "hits": 0, "removals": 0, "wrong": 0}
    names = [key(number, namespace=11) for number in range(CHUNKS)]  # no other test's
    moved = 0
    while moved < calls:
        puts = chance.sample(names, 4)
        gets = chance.sample(names, 6)
        for at, name in enumerate(puts):
            larderd.region[at * SIZE : (at + 1) * SIZE] = content(name)
        # Gets are sent before the puts are answered.
        putting = larderd.move(PUT, [(name, at * SIZE, SIZE) for at, name in enumerate(puts)])
        getting = larderd.move(GET, [(name, (8 + at) * SIZE, SIZE) for at, name in enumerate(gets)])
        answers = larderd.done(putting + getting)
        assert {result for _, result in answers[: len(puts)]} <= {OK, EXISTS}
        for at, (name, (_, result)) in enumerate(zip(gets, answers[len(puts) :], strict=True)):
            assert result in (OK, NOT_FOUND), result
            begin = (8 + at) * SIZE
            if result == OK:
                found["hits"] += 1
                found["wrong"] += larderd.region[begin : begin + SIZE] != content(name)
        found["puts"] += len(puts)
        found["gets"] += len(gets)
        moved += len(puts) + len(gets)
        if chance.random() < 0.3:
            larderd.remove(*chance.sample(names, 3))
            found["removals"] += 3
    return found
