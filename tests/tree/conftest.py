"""A small house to read and change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from tests.tree.surfaces import Direct, ThroughExecutor, make_service


class House(NamedTuple):
    """root > house > (kitchen > (table, chair), bath, attic); root > garden > shed"""

    call: Direct
    house: str
    kitchen: str
    table: str
    chair: str
    bath: str
    attic: str
    garden: str
    shed: str


def furnish(call: Direct) -> House:
    house = call.add("root", "House", Built=1900)
    kitchen = call.add(house, "Kitchen", Size=20, Address={"Street": "High St", "City": "Bath"})
    table = call.add(kitchen, "Table", Colour="red", Legs=4)
    chair = call.add(kitchen, "Chair", Colour="blue", Legs=4)
    bath = call.add(house, "Bath", Size=8)
    attic = call.add(house, "Attic", Size=30, Dusty=True)
    garden = call.add("root", "Garden", Size=100)
    shed = call.add(garden, "Shed", Size=6)
    return House(call, house, kitchen, table, chair, bath, attic, garden, shed)


@pytest.fixture
def house() -> House:
    return furnish(Direct(make_service()))


@pytest.fixture(autouse=True)
def _close_executors() -> Iterator[None]:
    yield
    for executed in list(ThroughExecutor.opened):
        executed.close()
