"""No module in here."""

ANSWER = 42
