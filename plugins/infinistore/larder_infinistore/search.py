"""Which of many names the server has, in one request. Pure; thread-safe.

The server offers a bisection alone. It takes a list of names, and goes to the right of a present
name and to the left of an absent one. The list here is a tree of questions, and repeats names. Each
path asks other names, and the place where the bisection ends tells all answers of the path.

The questions are the first name, the last name, and then a bisection between the two if they
differ, otherwise samples. So the result is exact where the names change once from present to absent
or from absent to present. With more changes a name between two answers is present if both are."""

import functools

_EXACT = 8  # up to so many names each is asked


def order(count):
    """The numbers of the names in the order of the list. REQUIRES: count > 0."""
    return [min(number, count - 1) for number in _tree(_padded(count))]


def presence(count, end):
    """A bool for each name. `end`: where the bisection of order(count) ended."""
    known = asked(count, end)
    there, last = [], 0
    for number in sorted(known):
        # Names between two answers.
        there += [known[last] and known[number]] * (number - last - 1)
        there.append(known[number])
        last = number
    return there


def asked(count, end):
    """The numbers of the names that the bisection asked, each with its answer."""
    padded, leaf = _padded(count), end + 1
    depth = _depth(padded)
    bits = tuple(bool(leaf >> (depth - 1 - at) & 1) for at in range(depth))
    return {min(_question(padded, bits[:at]), count - 1): bits[at] for at in range(depth)}


# Few sizes, so that few trees are built: the last name stands for the names behind it.
def _padded(count):
    return count if count <= _EXACT else 1 << (count - 1).bit_length()


@functools.lru_cache
def _tree(count):
    depth = _depth(count)
    numbers = [0] * ((1 << depth) - 1)

    def fill(low, high, bits):
        if low < high:
            middle = (low + high) // 2  # as the server chooses it
            numbers[middle] = _question(count, bits)
            fill(low, middle, (*bits, False))
            fill(middle + 1, high, (*bits, True))

    fill(0, len(numbers), ())
    return numbers


def _depth(count):
    if count <= _EXACT:
        return count
    return 2 + (count - 2).bit_length()


def _question(count, bits):
    """The name that is asked after the answers `bits`."""
    asked = len(bits)
    if count <= _EXACT or asked == 0:
        return asked
    if asked == 1:
        return count - 1
    first, last = bits[:2]
    if first == last:  # samples at equal distances
        samples = _depth(count) - 2
        return (asked - 1) * (count - 1) // (samples + 1)
    low, high = 0, count - 1
    for bit in bits[2:]:
        middle = (low + high) // 2
        low, high = (middle, high) if bit == first else (low, middle)
    return (low + high) // 2
