"""The forms of the cores of a task's streams, by which streams of the same kind are packed and loaded together."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from stream_app.config import StreamSettings, TaskSettings
from stream_app.pipeline.core_form import CoreForm, kind_of
from stream_app.pipeline.core_loading import Cores
from stream_app.pipeline.stream import Stream
from stream_app.pipeline.stream_state import StreamState
from stream_app.snapshot.segments import whole_core

_MOST_FORMS = 64

_Kind: TypeAlias = tuple[int, ...]


class _Streams(Protocol):
    """The port through which streams are opened: `stream_set.Streams`."""

    def number_of(self, name: str) -> int:
        """Return the number of a stream; -1: unknown."""

    def open(self, name: str, settings: StreamSettings, features: int = 0, *, is_loaded: bool = False) -> Stream:
        """Begin a new stream."""


class CoreForms:
    """The forms that were met, the newest last."""

    def __init__(self) -> None:
        self._forms: dict[_Kind, CoreForm] = {}

    def pack(self, states: Sequence[StreamState]) -> None:
        """Pack the cores of streams, as far as several of them are of the same kind; see `StreamState.packed`."""
        kinds: dict[_Kind, list[StreamState]] = {}
        for state in states:
            kind = kind_of(state.stream)
            if kind is not None:
                kinds.setdefault(kind, []).append(state)
        for kind, alike in kinds.items():
            if len(alike) == 1 and kind not in self._forms:
                continue  # it costs more to find its form than to pack it
            if len(self._forms) == _MOST_FORMS and kind not in self._forms:
                self._forms.clear()
            files = self._form(kind, alike[0]).pack([state.stream for state in alike])
            for state, packed in zip(alike, files, strict=True):
                state.packed = packed

    def note(self, state: StreamState) -> None:
        """Note a stream that was loaded alone: others of its kind may follow."""
        kind = kind_of(state.stream)
        if kind is not None and len(self._forms) < _MOST_FORMS:
            self._form(kind, state)

    def _form(self, kind: _Kind, state: StreamState) -> CoreForm:
        if kind not in self._forms:
            self._forms[kind] = CoreForm(state.stream, whole_core(state))
        return self._forms[kind]

    def load(self, names: Sequence[str], contents: Sequence[bytes], streams: _Streams, settings: TaskSettings) -> int:
        """Load as many of the first streams as have the same form, and whose cores are right; return how many."""
        own = list(map(settings.of_stream, names))
        for form in reversed(self._forms.values()):
            counts: list[Sequence[int]] = []
            for name, content, chosen in zip(names, contents, own, strict=True):
                is_alike = chosen is form.settings or chosen == form.settings
                found = form.counts_in(content) if is_alike and streams.number_of(name) < 0 else None
                if found is None:
                    break
                counts.append(found)
            if counts:
                cores = Cores.of(form, contents[: len(counts)], counts)
                count = cores.count_right()
                opened = zip(names[:count], own, strict=False)
                cores.load([streams.open(name, chosen, form.features, is_loaded=True) for name, chosen in opened])
                return count
        return 0
