"""A shop."""
import os
from dataclasses import dataclass

LIMIT = 10


@dataclass(frozen=True)
class Item(Base, metaclass=Meta):
    name: str

    def price(self, percent: int = 0) -> float:
        def rounded(x):
            return round(x)
        return rounded(percent)

    @property
    async def stock(
        self,
        where: str,
    ) -> int:
        return 1


def main():
    pass


def broken(:
    return
