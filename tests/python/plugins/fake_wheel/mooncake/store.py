"""The wheel's class without a network. Answers as the wheel 0.3.13.post1 answered when asked
(tests/python/plugins/test_mooncake_pool.py asks the real one).

$FAKE_MOONCAKE is a file with faults as JSON, read at each call: {"block": [names of calls],
"codes": {name: code}, "lost": [keys that a dead writer left]}. Calls are noted in the file
$FAKE_MOONCAKE.calls."""

import ctypes
import json
import os
import re
import threading
import time

_objects, _lock = {}, threading.Lock()


def _faults(name, count):
    path = os.environ["FAKE_MOONCAKE"]
    with open(path + ".calls", "a") as calls:
        calls.write(f"{name} {count}\n")
    with open(path) as file:
        faults = json.load(file)
    while name in faults.get("block", []):
        time.sleep(0.05)
        with open(path) as file:
            faults = json.load(file)
    return faults.get("codes", {}).get(name), faults.get("lost", [])


class MooncakeDistributedStore:
    def setup(self, host, metadata, contribute, local_buffer, protocol, devices, master):
        code, _ = _faults("setup", contribute)
        return code or 0

    def register_buffer(self, address, size):
        self._region = (address, size)
        return _faults("register_buffer", size)[0] or 0

    def close(self):
        _faults("close", 1)
        return 0

    def batch_is_exist(self, keys):
        code, _ = _faults("batch_is_exist", len(keys))
        return [code if code is not None else int(key in _objects) for key in keys]

    # As the real one: 0 for a key that exists or that a dead writer left.
    def batch_put_from(self, keys, addresses, sizes):
        code, lost = _faults("batch_put_from", len(keys))
        if code is not None:
            return [code] * len(keys)
        with _lock:
            for key, address, size in zip(keys, addresses, sizes, strict=True):
                if key not in _objects and key not in lost:
                    _objects[key] = ctypes.string_at(address, size)
        return [0] * len(keys)

    def batch_get_into(self, keys, addresses, rooms):
        code, _ = _faults("batch_get_into", len(keys))
        if code is not None:
            return [code] * len(keys)
        return [self._get(*one) for one in zip(keys, addresses, rooms, strict=True)]

    def _get(self, key, address, room):
        value = _objects.get(key)
        if value is None:
            return -704
        if len(value) > room:
            return -600
        ctypes.memmove(address, value, len(value))
        return len(value)

    def batch_remove(self, keys, force):
        assert force
        code, _ = _faults("batch_remove", len(keys))
        if code is not None:
            return [code] * len(keys)
        with _lock:
            return [0 if _objects.pop(key, None) is not None else -704 for key in keys]

    def remove_by_regex(self, pattern, force):
        assert force
        code, _ = _faults("remove_by_regex", 1)
        if code is not None:
            return code
        with _lock:
            found = [key for key in _objects if re.search(pattern, key)]
            for key in found:
                del _objects[key]
        return len(found)
