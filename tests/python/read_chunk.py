"""Reads training chunks by their layout only, and prints each position as a line of JSON.

lc0's training data, version 6: 8356 bytes a position, packed, little-endian.
"""

import gzip
import json
import math
import struct
import sys

LAYOUT = struct.Struct("<II1858f104Q4BBBBB15fIHHff")
VALUES = (
    "root_q best_q root_d best_d root_m best_m plies_left result_q result_d "
    "played_q played_d played_m orig_q orig_d orig_m"
).split()


def number(value):
    return None if math.isnan(value) else value


def position(chunk):
    fields = list(LAYOUT.unpack(chunk))

    def take(count):
        taken = fields[:count]
        del fields[:count]
        return taken

    out = {}
    out["version"], out["input_format"] = take(2)
    out["probabilities"] = take(1858)
    # The file has the bits of each byte in reverse order.
    out["planes"] = [
        str(int.from_bytes(bytes(int(f"{byte:08b}"[::-1], 2) for byte in plane.to_bytes(8, "little")), "little"))
        for plane in take(104)
    ]
    out["castling"] = take(4)
    out["black"], out["rule50"], out["invariance_info"], out["dummy"] = take(4)
    out["values"] = {name: number(value) for name, value in zip(VALUES, take(15))}
    out["visits"], out["played_idx"], out["best_idx"], out["policy_kld"], out["q_st"] = take(5)
    assert not fields
    return out


assert LAYOUT.size == 8356


def main():
    for path in sys.argv[1:]:
        with gzip.open(path, "rb") as file:
            data = file.read()
        assert data and len(data) % LAYOUT.size == 0, path
        for start in range(0, len(data), LAYOUT.size):
            print(json.dumps(position(data[start : start + LAYOUT.size])))


if __name__ == "__main__":
    main()
