"""What the order desk's modules share. Names that begin with `_` are not scanned for modules."""
