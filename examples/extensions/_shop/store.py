"""The bookshop's records, held in memory.

The seed and the business date are fixed: a call answers the same on every day and on every machine.
Changes last as long as the process; `reset()` brings the seed back.
"""

from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from apcore.errors import InvalidInputError

TODAY = date(2026, 3, 14)

# A model reads these patterns in the tool schemas, and needs no call to learn that a number is malformed.
ISBN = r"^97[89]\d{10}$"
ORDER_ID = r"^B-\d{4}$"
CUSTOMER_ID = r"^C-\d{3}$"


class OrderStatus(StrEnum):
    PLACED = "placed"
    PACKED = "packed"
    SENT = "sent"
    CANCELLED = "cancelled"
    REFUNDED = "refunded"


@dataclass
class Book:
    isbn: str
    title: str
    author: str
    subject: str
    price_pence: int
    in_stock: int


@dataclass
class Customer:
    id: str
    name: str
    email: str | None
    phone: str | None
    security_phrase: str


@dataclass
class Order:
    id: str
    customer_id: str
    placed_on: date
    status: OrderStatus
    quantities: dict[str, int]
    postage_pence: int = 0
    refunded_pence: int = 0

    @property
    def goods_pence(self) -> int:
        return sum(books[isbn].price_pence * copies for isbn, copies in self.quantities.items())

    @property
    def total_pence(self) -> int:
        return self.goods_pence + self.postage_pence


books: dict[str, Book] = {}
customers: dict[str, Customer] = {}
orders: dict[str, Order] = {}


def reset() -> None:
    """Forget every change and go back to the seed."""
    for records in (books, customers, orders):
        records.clear()
    books.update(_seed_books())
    customers.update(_seed_customers())
    orders.update(_seed_orders())


def book(isbn: str) -> Book:
    if isbn not in books:
        raise InvalidInputError(f"no book with ISBN {isbn}; catalogue.search finds ISBNs by title or author")
    return books[isbn]


def customer(customer_id: str) -> Customer:
    if customer_id not in customers:
        raise InvalidInputError(f"no customer {customer_id}; customers.find finds ids by name or e-mail")
    return customers[customer_id]


def order(order_id: str) -> Order:
    if order_id not in orders:
        raise InvalidInputError(f"no order {order_id}; orders.find lists them")
    return orders[order_id]


def place(customer_id: str, quantities: dict[str, int], postage_pence: int) -> Order:
    """Take the copies out of stock and file a new order."""
    customer(customer_id)
    for isbn, copies in quantities.items():
        if book(isbn).in_stock < copies:
            raise InvalidInputError(f"only {books[isbn].in_stock} of '{books[isbn].title}' in stock")
    # Every line is checked first, so that a refused order takes nothing.
    for isbn, copies in quantities.items():
        books[isbn].in_stock -= copies
    number = f"B-{1001 + len(orders)}"
    placed = Order(number, customer_id, TODAY, OrderStatus.PLACED, quantities, postage_pence)
    orders[placed.id] = placed
    return placed


def put_back(cancelled: Order) -> int:
    """Return an order's copies to stock and say how many they were."""
    for isbn, copies in cancelled.quantities.items():
        books[isbn].in_stock += copies
    return sum(cancelled.quantities.values())


def _seed_books() -> dict[str, Book]:
    rows = (
        Book("9780141439549", "Middlemarch", "George Eliot", "fiction", 999, 6),
        Book("9780141182711", "The Waves", "Virginia Woolf", "fiction", 899, 2),
        Book("9780099429838", "Invisible Cities", "Italo Calvino", "fiction", 950, 0),
        Book("9781473221628", "The Left Hand of Darkness", "Ursula K. Le Guin", "science-fiction", 999, 11),
        Book("9780141023380", "Things Fall Apart", "Chinua Achebe", "fiction", 899, 4),
        Book("9780140449266", "The Count of Monte Cristo", "Alexandre Dumas", "fiction", 1299, 3),
        Book("9780141439518", "Pride and Prejudice", "Jane Austen", "fiction", 699, 9),
        Book("9780140268867", "The Odyssey", "Homer", "poetry", 1499, 5),
    )
    return {row.isbn: row for row in rows}


def _seed_customers() -> dict[str, Customer]:
    rows = (
        Customer("C-101", "Amina Osei", "amina@example.org", "+44 20 7946 0101", "blue kettle"),
        Customer("C-102", "Tom Marlowe", "tom.marlowe@example.org", None, "winter barley"),
        Customer("C-103", "Ines Duarte", None, "+351 210 000 103", "seven bridges"),
        Customer("C-104", "Lena Voss", "lena@example.org", None, "old lamp"),
    )
    return {row.id: row for row in rows}


def _seed_orders() -> dict[str, Order]:
    rows = (
        Order("B-1001", "C-101", date(2026, 3, 2), OrderStatus.SENT, {"9780141439549": 1, "9780141182711": 1}, 350),
        Order("B-1002", "C-102", date(2026, 3, 9), OrderStatus.PACKED, {"9781473221628": 2}, 350),
        Order("B-1003", "C-101", date(2026, 3, 12), OrderStatus.PLACED, {"9780140449266": 4, "9780140268867": 2}, 0),
        Order("B-1004", "C-103", date(2026, 3, 12), OrderStatus.PLACED, {"9780141023380": 1}, 1150),
    )
    return {row.id: row for row in rows}


reset()
