"""The most memory that some work has allocated at once, to the byte, by torch's own allocator."""

from collections.abc import Callable

from torch.profiler import ProfilerActivity, profile


def peak_allocation(work: Callable[[], object]) -> int:
    """Bytes beyond what was there before; what the work gives back of that is not counted."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        work()
    events = watched.profiler.kineto_results.events()
    changes = [event for event in events if event.name() == "[memory]"]
    held = peak = 0
    for change in sorted(changes, key=lambda change: change.start_ns()):
        held += change.nbytes()
        peak = max(peak, held)
    return peak
