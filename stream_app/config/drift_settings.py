"""When the inputs and scores of a stream are compared with earlier ones, without labels."""

from typing import Annotated

from pydantic import Field

from stream_app.config.values import Integer, Number, Settings

MIN_WINDOW_EXAMPLES = 10


class DriftSettings(Settings):
    """How drift without labels is found in a stream: by the population stability index (PSI) of windows of examples.

    Attributes:
        reference_examples: Examples of the reference. The features' reference begins with the first example, that of
            the champion's scores after as many labels.
        window_examples: Examples of a window, which is compared with the reference at its end, and after which a
            record of metrics is published.
        threshold: A score or feature has drifted if its PSI is above this number.
        reference: Any number; another number takes a new reference.
    """

    reference_examples: Annotated[Integer, Field(ge=10, le=20_000)] = 2_000
    window_examples: Annotated[Integer, Field(ge=MIN_WINDOW_EXAMPLES, le=10_000_000)] = 1_000
    threshold: Annotated[Number, Field(gt=0, le=100)] = 0.25
    reference: Annotated[Integer, Field(ge=0, le=1_000_000_000)] = 0
