"""What one rank has to do with tensors of one shape that are moved alike."""

from __future__ import annotations

from mpiparallel.layout.box import Box
from mpiparallel.reshard.planning.frame import Parts
from mpiparallel.reshard.planning.tensor_move import Ends, TensorMove, shared_box


class RankOverlaps:
    """What one rank keeps, copies, gets and gives of every tensor of one shape that is moved alike.

    ``arrivals`` come from the only holder, ``lacking`` from one of several. ``shared`` are the source parts of this
    rank where it is one of several holders: who gives these to whom is up to the rule.
    """

    __slots__ = ("_before", "_boxes", "_move", "arrivals", "copy", "departures", "kept", "lacking", "shared")

    def __init__(self, move: TensorMove, rank: int) -> None:
        self._move = move
        self._before: Ends = ()
        self._boxes: dict[Parts, Box] = {}
        self.kept = False
        self.copy: Box | None = None
        self.arrivals: list[tuple[int, Box]] = []
        self.departures: list[tuple[int, Box]] = []
        self.lacking: list[tuple[Parts, Box]] = []
        self.shared: Parts | None = None
        held, wanted = move.pair.source.parts(rank), move.pair.target.parts(rank)
        if held is not None:
            self._before = move.source_ends(held)
        if wanted is not None:
            after = move.target_ends(wanted)
            self.kept = held is not None and after == self._before
            if not self.kept:
                self._find_arrivals(after, held)
        if held is not None and move.pair.source is not move.pair.target:
            self._find_departures(held, rank)

    def _find_arrivals(self, after: Ends, held: Parts | None) -> None:
        source = self._move.pair.source
        for parts, box in self._move.source_pieces(after):
            if parts == held:
                self.copy = box
            elif source.replica_count == 1:
                self.arrivals.append((source.only_holder(parts), box))
            else:
                self.lacking.append((parts, box))

    def _find_departures(self, held: Parts, rank: int) -> None:
        target = self._move.pair.target
        if self._move.pair.source.replica_count > 1:
            self.shared = held
            return
        for parts, box in self._move.target_pieces(self._before):
            if target.replica_count == 1:
                taker = target.first_holder(parts)
                if taker != rank:
                    self.departures.append((taker, box))
            else:
                self.departures += [(taker, box) for taker in target.holders(parts) if taker != rank]

    def box_for(self, parts: Parts) -> Box:
        """Return the box that goes from this rank to a rank of target ``parts``."""
        if parts not in self._boxes:
            self._boxes[parts] = shared_box(self._before, self._move.target_ends(parts))
        return self._boxes[parts]
