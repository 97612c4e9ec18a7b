"""The file of a flight recorder: header, groups, texts, and a ring of collectives, at fixed places."""

from __future__ import annotations

import struct

MAGIC = b"MPIFLT01"

# magic, rank, size, process, started, the namespace of its process number
IDENTITY = struct.Struct("<8siiqqQ")
STATE = struct.Struct("<i")
STATE_AT = IDENTITY.size
# bytes of texts, count of groups
FILLED = struct.Struct("<ii")
FILLED_AT = STATE_AT + STATE.size
# number of the collective that the process is blocked in, or 0; number of the last one that was entered
INSIDE = struct.Struct("<Q")
INSIDE_AT = FILLED_AT + FILLED.size
NUMBER_AT = INSIDE_AT + INSIDE.size
# time of the watchdog's last look
BEAT = struct.Struct("<q")
BEAT_AT = NUMBER_AT + INSIDE.size
# stage of a pipeline or NO_STAGE, text of the action there with # for its micro-batch, micro-batch
ACTION = struct.Struct("<iii")
ACTION_AT = BEAT_AT + BEAT.size
HOST_AT, HOST_BYTES = 128, 128
PLACE_AT, PLACE_BYTES = 256, 256

# index of its members' text, collectives entered
GROUP = struct.Struct("<QQ")
GROUPS_AT, MOST_GROUPS = 512, 256

TEXTS_AT = GROUPS_AT + MOST_GROUPS * GROUP.size
TEXTS_BYTES = 1 << 16

# number, sequence in its group, group, call's text, label's text, peer, count, entered, left
CALL = struct.Struct("<QQiHHiQqq")
CALLS_AT = TEXTS_AT + TEXTS_BYTES
RING = 1024
LEFT_AT = CALL.size - 8

BYTES = CALLS_AT + RING * CALL.size

STARTING, RUNNING, ENDED, FAILED, FAILING = range(5)
STATES = ("starting", "running", "ended", "failed", "failing")
NO_PEER = NO_STAGE = -1
