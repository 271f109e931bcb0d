"""The tree itself: nodes, revisions, snapshots and the reads over them.  It knows neither agents nor storage."""
