"""The network: 64 squares as tokens, mixed along lines of sight.

Every block passes messages between squares in two ways. Half of the channels travel along open lines: two 64x64
matrices a position, one for ranks and files, one for diagonals, hold 1 where no piece stands between two squares of a
line. So a message stops at the first piece, as rooks and bishops do; convolutions need many layers for that and
attention has to learn it. The other half is mixed by learned 64x64 matrices that are the same for all positions, which
serve for knights, pawns, kings and whatever else helps. All of it is dense matrix products, which is what CPUs are good
at; the lines of sight are one product too, occupancy times the table of the squares between.

To compare with, the same embedding and heads also go around a residual tower, as lc0's and Maia's networks have it.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import nn

from .policy import PAIR_INDEX, PROMOTIONS

PIECE_PLANES = 12
PLIES_UNIT = 20.0  # the moves-left output counts in these
FEATURES = PIECE_PLANES + 4 + 1 + 1  # castling, rule 50, en passant


LINES = [3, 2]  # of `reach`: ranks and files, diagonals


@dataclass
class Config:
    body: str = "lines"  # or "residual"
    channels: int = 64
    fixed_heads: int = 2  # of lines
    blocks: int = 3
    hidden: int = 96  # of lines
    policy: int = 32
    value_channels: int = 16
    value_hidden: int = 96

    def __post_init__(self) -> None:
        if self.body not in BODIES:
            raise ValueError(f"body {self.body!r} is none of {', '.join(BODIES)}")
        heads = len(LINES) + self.fixed_heads
        if self.body == "lines" and self.channels % heads:
            raise ValueError(f"{self.channels} channels cannot be divided among {heads} ways to mix them")

    @staticmethod
    def parse(text: str) -> Config:
        """Sizes from JSON, defaults for those that it does not name. Raises ArgumentTypeError if it is not such."""
        try:
            return Config(**json.loads(text))
        except (TypeError, ValueError) as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    def as_dict(self) -> dict[str, int | str]:
        return asdict(self)


def squares_between() -> np.ndarray:
    """[64, 4096]: 1 where the first square lies between the pair's squares on a rank, file or diagonal."""
    between = np.zeros((64, 64, 64), np.float32)
    for start in range(64):
        for end in range(64):
            files, ranks = end % 8 - start % 8, end // 8 - start // 8
            steps = max(abs(files), abs(ranks))
            if steps and (files == 0 or ranks == 0 or abs(files) == abs(ranks)):
                for step in range(1, steps):
                    between[start + (files * step + 8 * ranks * step) // steps, start, end] = 1
    return between.reshape(64, 4096)


def reach() -> np.ndarray:
    """[8, 64, 64]: where own P(push) N B R Q K, P(capture) and castling may go on an empty board."""
    moves = np.zeros((8, 64, 64), np.float32)
    for start in range(64):
        for end in range(64):
            files, ranks = end % 8 - start % 8, end // 8 - start // 8
            line, diagonal = (files == 0) != (ranks == 0), abs(files) == abs(ranks) != 0
            moves[0, start, end] = files == 0 and (ranks == 1 or (ranks == 2 and start // 8 == 1))
            moves[1, start, end] = {abs(files), abs(ranks)} == {1, 2}
            moves[2, start, end] = diagonal
            moves[3, start, end] = line
            moves[4, start, end] = line or diagonal
            moves[5, start, end] = max(abs(files), abs(ranks)) == 1
            moves[6, start, end] = ranks == 1 and abs(files) == 1
            moves[7, start, end] = start // 8 == 0 and end // 8 == 0 and start != end
    return moves


def features(positions: torch.Tensor) -> torch.Tensor:
    """Token features [n, 64, FEATURES] of positions, u8 [n, records.POSITION_BYTES], on their device."""
    n, device = len(positions), positions.device
    numbers = torch.arange(13, dtype=torch.uint8, device=device)
    board, state, ep, rule50 = positions[:, :32], positions[:, 32:33], positions[:, 33:34], positions[:, 34]
    # A byte holds two squares, the first one in its lower half.
    codes = torch.stack([board & 15, board >> 4], dim=2).flatten(1)
    tokens = torch.zeros(n, 64, FEATURES, device=device)
    tokens[:, :, :PIECE_PLANES] = codes.unsqueeze(2) == numbers[1:]
    tokens[:, :, PIECE_PLANES : PIECE_PLANES + 4] = ((state >> numbers[:4]) & 1).unsqueeze(1)
    tokens[:, :, PIECE_PLANES + 4] = (rule50.clamp(max=100).float() / 100).unsqueeze(1)
    tokens[:, 40:48, PIECE_PLANES + 5] = (ep == numbers[:8]).float()
    return tokens


class Block(nn.Module):
    """Mix the squares, then each square by itself; added to the residual stream."""

    def __init__(self, config: Config):
        super().__init__()
        self.heads = len(LINES) + config.fixed_heads
        self.values = nn.Linear(config.channels, config.channels)
        self.fixed = nn.Parameter(torch.randn(config.fixed_heads, 64, 64) * 0.08)
        self.into = nn.Linear(2 * config.channels, config.hidden)
        self.out = nn.Linear(config.hidden, config.channels)
        nn.init.zeros_(self.out.weight)

    def forward(self, x: torch.Tensor, seen: list[torch.Tensor]) -> torch.Tensor:
        values = self.values(x).relu().chunk(self.heads, dim=2)
        mixed = [torch.matmul(matrix, part) for matrix, part in zip([*seen, *self.fixed], values)]
        return x + self.out(self.into(torch.cat([x, *mixed], dim=2)).relu())


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions with squeeze-and-excite, added to their input (Hu et al., 2018). No normalisation: the
    second convolution is initialised with zeros instead."""

    SQUEEZE = 8

    def __init__(self, config: Config):
        super().__init__()
        channels = config.channels
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.squeeze = nn.Linear(channels, channels // self.SQUEEZE)
        self.excite = nn.Linear(channels // self.SQUEEZE, 2 * channels)
        nn.init.zeros_(self.second.weight)

    def forward(self, x: torch.Tensor, seen: list[torch.Tensor]) -> torch.Tensor:
        # The channels come last in memory, before and after: nothing is copied.
        board = x.unflatten(1, (8, 8)).permute(0, 3, 1, 2)
        y = self.second(self.first(board).relu()).permute(0, 2, 3, 1).flatten(1, 2)
        scale, shift = self.excite(self.squeeze(y.mean(dim=1)).relu()).unsqueeze(1).chunk(2, dim=2)
        return (x + y * scale.sigmoid() + shift).relu()


BODIES = {"lines": Block, "residual": ResidualBlock}


class Network(nn.Module):
    """Policy logits [n, 1858], W/D/L logits [n, 3], plies left / 20 [n], open lines [n, 64, 64]."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        channels = config.channels
        self.embed = nn.Linear(FEATURES, channels)
        self.place = nn.Parameter(torch.randn(64, channels) * 0.1)
        self.blocks = nn.ModuleList(BODIES[config.body](config) for _ in range(config.blocks))
        self.policy_from = nn.Linear(channels, config.policy)
        self.policy_to = nn.Linear(channels, config.policy)
        self.policy_bias = nn.Parameter(torch.zeros(64, 64))
        # Three directions and three pieces, for the pawns of the seventh rank.
        self.promotion = nn.Linear(channels, 9)
        self.value_squares = nn.Linear(channels, config.value_channels)
        self.value_hidden = nn.Linear(64 * config.value_channels, config.value_hidden)
        self.wdl = nn.Linear(config.value_hidden, 3)
        self.plies = nn.Linear(config.value_hidden, 1)
        self.register_buffer("between", torch.from_numpy(squares_between()), persistent=False)
        self.register_buffer("lines", torch.from_numpy(reach()[LINES]), persistent=False)
        self.register_buffer("pairs", torch.from_numpy(policy_gather()), persistent=False)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        n = tokens.shape[0]
        with torch.no_grad():
            occupied = tokens[:, :, :PIECE_PLANES].sum(dim=2)
            open_lines = (1 - occupied @ self.between).relu().view(n, 64, 64)
            seen = [open_lines * line for line in self.lines]
        x = (self.embed(tokens) + self.place).relu()
        for block in self.blocks:
            x = block(x, seen)
        x = x.relu()
        scale = self.config.policy**-0.5
        moves = (self.policy_from(x) * scale) @ self.policy_to(x).transpose(1, 2) + self.policy_bias
        promotions = self.promotion(x[:, 48:56])
        logits = torch.cat([moves.flatten(1), promotions.flatten(1)], dim=1)
        hidden = self.value_hidden(self.value_squares(x).relu().flatten(1)).relu()
        policy = logits.index_select(1, self.pairs)
        return policy, self.wdl(hidden), self.plies(hidden).squeeze(1), open_lines


def policy_gather() -> np.ndarray:
    """Where each policy index is found in the 4096 square pairs followed by 8 x 9 promotions."""
    promotions = [
        4096 + (start - 48) * 9 + (end % 8 - start % 8 + 1) * 3 + "qrb".index(piece) for start, end, piece in PROMOTIONS
    ]
    return np.concatenate([PAIR_INDEX[: -len(PROMOTIONS)], np.array(promotions)])


class MoveMask(nn.Module):
    """Pseudo-legal moves as a mask over the policy vector, so that no capacity is spent on impossible moves.

    A move is a pair of squares with one bit for each way of moving. The piece on the first square says which ways it
    has to the second, the second square which ways it admits; a way they share is a move if the line is open. Bytes and
    bits because this is done for every position of the training: with floats it took as long as the network.
    """

    PIECE, PUSH, CAPTURE, CASTLE = 1, 2, 4, 8

    def __init__(self):
        super().__init__()
        push, knight, bishop, rook, queen, king, capture, castle = reach() != 0
        # By piece code: none P N B R Q K. Then one row of 64 bytes for each piece on each square.
        ways = np.zeros((7, 64, 64), np.uint8)
        ways[1] = push * self.PUSH + capture * self.CAPTURE
        for code, moves in enumerate([knight, bishop, rook, queen, king], 2):
            ways[code] = moves * self.PIECE
        ways[6] |= castle * np.uint8(self.CASTLE)
        # A promotion is a pawn's move; other indices take all ways.
        admitted = np.full(len(PAIR_INDEX), 255, np.uint8)
        admitted[-len(PROMOTIONS) :] = self.PUSH | self.CAPTURE
        self.register_buffer("ways", torch.from_numpy(ways.reshape(7 * 64, 64)), persistent=False)
        self.register_buffer("admitted", torch.from_numpy(admitted), persistent=False)
        self.register_buffer("index", torch.from_numpy(PAIR_INDEX), persistent=False)
        self.register_buffer("codes", torch.arange(1.0, 7.0), persistent=False)
        self.register_buffer("squares", torch.arange(64), persistent=False)

    def forward(self, tokens: torch.Tensor, open_lines: torch.Tensor) -> torch.Tensor:
        own, theirs = tokens[:, :, 0:6], tokens[:, :, 6:12].sum(dim=2) > 0
        codes = (own @ self.codes).long()
        ways = self.ways.index_select(0, (codes * 64 + self.squares).flatten()).view(-1, 64, 64)
        ours = codes > 0
        may_castle = tokens[:, :1, 12:14].amax(dim=2) > 0
        ends = (
            ~ours * self.PIECE
            + ~(ours | theirs) * self.PUSH
            + (theirs | (tokens[:, :, 17] > 0)) * self.CAPTURE
            + ((codes == 4) & may_castle) * self.CASTLE
        ).byte()
        moves = (ways & ends.unsqueeze(1)) * (open_lines > 0)
        return (moves.flatten(1).index_select(1, self.index) & self.admitted) != 0
