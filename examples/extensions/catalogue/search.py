"""Search the catalogue."""

from typing import Any, ClassVar, Literal

from _shop import store
from apcore import Context, ModuleAnnotations, ModuleExample
from pydantic import BaseModel, Field

SearchOrder = Literal["title", "price", "stock"]


class SearchInput(BaseModel):
    query: str = Field(default="", max_length=80, description="Words in the title or the author's name; empty for all.")
    subject: Literal["fiction", "science-fiction", "poetry"] | None = Field(
        default=None, description="Only this subject."
    )
    in_stock_only: bool = Field(default=False, description="Leave out books that cannot be sent today.")
    order_by: SearchOrder = Field(default="title", description="How to sort the hits.")
    limit: int = Field(default=10, ge=1, le=50, description="Return at most this many books.")


class Hit(BaseModel):
    isbn: str = Field(pattern=store.ISBN, description="ISBN-13, as orders.create expects it.")
    title: str = Field(description="Title as printed.")
    author: str = Field(description="Author as printed.")
    price_pence: int = Field(ge=0, description="Shelf price of one copy, in pence.")
    in_stock: int = Field(ge=0, description="Copies that can be sent today.")


class SearchOutput(BaseModel):
    hits: list[Hit] = Field(description="The books found, sorted as asked.")
    total: int = Field(ge=0, description="How many books matched before `limit` was applied.")


class SearchCatalogue:
    input_schema = SearchInput
    output_schema = SearchOutput
    description = (
        "Search the catalogue by title, author or subject and see price and stock. "
        "Start here whenever a customer names a book: every other tool wants its ISBN."
    )
    documentation = """\
# Searching the catalogue

Every word of `query` must occur in the title or in the author's name. Case does not matter; word order does
not matter either.

| you want | ask for |
|---|---|
| everything by one author | `{"query": "woolf"}` |
| one book | `{"query": "left hand darkness"}` |
| what can be sent today | `{"in_stock_only": true, "order_by": "stock"}` |

## Sorting

- `title` sorts from A to Z.
- `price` puts the cheapest first.
- `stock` puts the book with most copies first.

A book with no copies left is still listed, with `in_stock` 0, unless `in_stock_only` is set. `orders.create`
refuses it.
"""
    tags: ClassVar = ["catalogue", "read"]
    annotations = ModuleAnnotations(readonly=True, idempotent=True, open_world=False, cacheable=True, cache_ttl=60)
    examples: ClassVar = [
        ModuleExample(
            title="Find a book by its author",
            inputs={"query": "woolf"},
            output={
                "hits": [
                    {
                        "isbn": "9780141182711",
                        "title": "The Waves",
                        "author": "Virginia Woolf",
                        "price_pence": 899,
                        "in_stock": 2,
                    }
                ],
                "total": 1,
            },
        ),
        ModuleExample(title="Nothing found", inputs={"query": "gardening"}, output={"hits": [], "total": 0}),
    ]

    def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        wanted = SearchInput.model_validate(inputs)
        words = wanted.query.lower().split()
        found = [
            book
            for book in store.books.values()
            if all(word in f"{book.title} {book.author}".lower() for word in words)
            and wanted.subject in (None, book.subject)
            and (book.in_stock or not wanted.in_stock_only)
        ]
        found.sort(key=_SORT_KEYS[wanted.order_by])
        hits = [Hit.model_validate(book, from_attributes=True) for book in found[: wanted.limit]]
        return SearchOutput(hits=hits, total=len(found)).model_dump()


# The title settles ties, so that equal prices come in the same order every time.
_SORT_KEYS: dict[SearchOrder, Any] = {
    "title": lambda book: book.title,
    "price": lambda book: (book.price_pence, book.title),
    "stock": lambda book: (-book.in_stock, book.title),
}
