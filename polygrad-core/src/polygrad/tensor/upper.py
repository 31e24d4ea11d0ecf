"""All storeys of `Tensor`, put under it when this module is imported: see `ground`."""

from __future__ import annotations

from ..errors import public
from .ground import Ground
from .peer_names import PeerNames
from .tensor import Tensor

for _storey in PeerNames.__mro__:
    if _storey not in Ground.__mro__:
        public(_storey)
Tensor.__bases__ = (PeerNames,)
