from apcore import module


@module(id="shop.open", description="Open the shop.")
def open_shop(early: bool = False) -> dict[str, bool]:
    return {"early": early}
