"""What books and parcels cost.

Plain functions that know nothing of apcore: `catalogue/pricing.binding.yaml` makes modules of them.
"""

from typing import Literal

from pydantic import BaseModel, Field

from . import store

Zone = Literal["uk", "europe", "world"]

_FIRST_PARCEL_PENCE: dict[Zone, int] = {"uk": 350, "europe": 1150, "world": 1900}
_PER_FURTHER_BOOK_PENCE: dict[Zone, int] = {"uk": 50, "europe": 200, "world": 400}
_FREE_UK_POSTAGE_FROM_PENCE = 5000


def postage(copies: int, zone: Zone = "uk", goods_pence: int = 0) -> int:
    """Say what a parcel costs to send.

    Args:
        copies: How many books are in the parcel.
        zone: Where it goes.
        goods_pence: What the books cost; UK parcels worth 50 pounds or more travel free.
    """
    if zone == "uk" and goods_pence >= _FREE_UK_POSTAGE_FROM_PENCE:
        return 0
    return _FIRST_PARCEL_PENCE[zone] + _PER_FURTHER_BOOK_PENCE[zone] * max(copies - 1, 0)


class Quote(BaseModel):
    goods_pence: int = Field(ge=0, description="The books at shelf price, in pence.")
    discount_pence: int = Field(ge=0, description="What is taken off, in pence.")
    postage_pence: int = Field(ge=0, description="Postage in pence.")
    total_pence: int = Field(ge=0, description="What the customer would pay, in pence.")


def quote(isbns: list[str], zone: Zone = "uk", school: bool = False) -> Quote:
    """Price a basket without placing an order.

    Args:
        isbns: One ISBN for each copy; repeat an ISBN for several copies.
        zone: Where the parcel goes.
        school: Whether the buyer is a school, which earns ten per cent off the books.
    """
    goods = sum(store.book(isbn).price_pence for isbn in isbns)
    discount = goods // 10 if school else 0
    post = postage(len(isbns), zone, goods - discount)
    return Quote(goods_pence=goods, discount_pence=discount, postage_pence=post, total_pence=goods - discount + post)
