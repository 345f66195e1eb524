"""What is known of a process: sampled transitions, logged episodes, and tables of them."""

from gaussbell.data.frames import from_frame, from_minari, transitions_from_frame
from gaussbell.data.horizons import LambdaReturn
from gaussbell.data.logs import Log
from gaussbell.data.transitions import Transitions

__all__ = ["LambdaReturn", "Log", "Transitions", "from_frame", "from_minari", "transitions_from_frame"]
