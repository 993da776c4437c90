"""The live page of `areba dashboard`: a running application in a browser, from its topics alone.

`model` adds curves, marks and stalls to the model of `monitor`; it is pure, and bounded in memory. `documents` turns it
into JSON. `feed` reads the topics in a thread and keeps the newest documents. `server` sends them to browsers. The page
itself is in `static`, without a build step; uPlot is vendored there.

May import `monitor`, `backends`, `serialization` and `config`. Nothing here writes to a topic or joins a group.
Public: `feed`, `server`.
"""
