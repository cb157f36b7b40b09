"""A container's command, written anew from what is understood of it.

Commands hold models, paths, hosts, whole scripts. What Islander reads of them are the parallel sizes and a few facts
around; a plain command that says the same replaces them.
"""

from __future__ import annotations

from msgspec import structs

from islander.cluster.pod import Container
from islander.cluster.vllm import SIZE_FLAGS, SIZE_VARIABLES, Reading, read_container
from planner.invented_names import Word

# The value of a size that only the running container knows.
_NOT_KNOWN = "$(SIZE)"

_FLAGS = {size: flag for flag, size in SIZE_FLAGS.items()}
_VARIABLES = {size: name for name, size in SIZE_VARIABLES.items()}


def with_plain_command(container: Container, word: Word) -> Container:
    """Return the container with a command and variables of which the same is read, and nothing else.

    Parameters
    ----------
    word
        Replaces a text that stands where a number should.
    """
    if not container.argv and not container.env and not container.image:
        return container
    reading = read_container(container)
    unknown = dict(reading.unknown)
    texts = {
        name: (word(unknown[name]) if unknown[name] else _NOT_KNOWN)
        if name in unknown
        else str(getattr(reading.sizes, name))
        for name in _FLAGS
        if name in reading.stated or name in unknown or (name == "nodes" and reading.sizes.nodes > 1)
    }
    as_variables = {name for name in reading.stated if reading.sizes.source == "env" and name in _VARIABLES}
    flags = [word for name, text in texts.items() if name not in as_variables for word in (_FLAGS[name], text)]
    argv = _command(reading, flags)
    env = tuple(sorted((_VARIABLES[name], texts[name]) for name in as_variables))
    if not argv and (container.argv or container.env) and not env:
        # Containers with a command count among those that may state a size, also when they do not.
        argv = ("program",)
    return structs.replace(container, argv=argv, env=env)


def _command(reading: Reading, flags: list[str]) -> tuple[str, ...]:
    one_node = ["--nnodes", "1"]
    if reading.is_vllm:
        start = ["vllm", "serve", "model"]
        flags = flags + ["--headless"] * reading.spans_pods
    else:
        start = ["ray", "start"] if reading.spans_pods else ["program"] if reading.several else []
        # Another program counts as one that starts an engine when it is given a size.
        flags = flags or one_node if reading.several or reading.from_file else flags
    words = [*start, *flags, *(["--config", "file"] if reading.from_file else [])]
    if reading.several:
        return "sh", "-c", f"{' '.join(words)}; {' '.join([*start, *one_node])}"
    return tuple(words)
