"""The user's plugins: find them, load them, call create.py, and turn what they yield into tasks.

A plugin is loaded by its path under a private name, so that a parser called csv.py shadows nothing; its folder stands
last on the module path, so that it can import its neighbours and none of them hides the standard library.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import itertools
import os
import re
import sys
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from stateful_crawler.curl.config import Option, format_config, needs_globoff, parse_config
from stateful_crawler.curl.options import OPTIONS, nearest
from stateful_crawler.errors import PluginError, TaskFileError, UsageError, printable
from stateful_crawler.guard import same_host
from stateful_crawler.task import BODY_OPTIONS, DEFAULTS, By, Task, check_name, new_task
from stateful_crawler.urls import clean_url, origin_of

OUR_KEYS = frozenset({"url", "output", "name", "meta"})
# What belongs to the parent's own request, not to the pages that it links to.
_NOT_INHERITED = BODY_OPTIONS | {"request", "get", "head", "range"}
_UNDER_HTML = re.compile(r"html(?:/[^./][^/]*)+").fullmatch
_SECRETS = frozenset({"user", "cookie"})
_SECRET_HEADERS = ("authorization:", "cookie:", "proxy-authorization:")


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin file as it was when the run began: an edit during the run is not seen by half of the workers."""

    path: str
    source: bytes

    @classmethod
    def read(cls, path: str) -> Plugin:
        """The file's present text; PluginError where it can't be read."""
        try:
            with open(path, "rb") as file:
                return cls(os.path.abspath(path), file.read())
        except OSError as error:
            raise PluginError(path, f"can't be read: {error.strerror}") from error


def load(plugin: Plugin, function: str, *, interrupts_too: bool = False) -> Callable[..., Any]:
    """Run the plugin's code and return its function; PluginError with the line at fault where that fails."""
    folder = os.path.dirname(plugin.path)
    if folder not in sys.path:
        sys.path.append(folder)
    module = types.ModuleType(f"_sc_plugin_{abs(hash(plugin.path)):x}")
    module.__file__ = plugin.path
    sys.modules[module.__name__] = module  # dataclasses look their module up there
    with users_code(plugin.path, interrupts_too=interrupts_too):
        exec(compile(plugin.source, plugin.path, "exec"), module.__dict__)
    found = getattr(module, function, None)
    if not callable(found):
        raise PluginError(plugin.path, f"has no function {function}(); see `sc init` for one that works")
    return found  # type: ignore[no-any-return]  # callable() is all that can be known of it


def code_digest(plugin: Plugin) -> str:
    """A hash of the plugin's code and of the neighbours that it imports: when it differs, what it made is stale.

    The code is read, not run, so that an import inside parse() counts before it is reached.
    """
    import hashlib  # here, not above: it loads OpenSSL, and a crawl without a parser does not need it

    folder = os.path.dirname(plugin.path)
    sources, todo = {plugin.path: plugin.source}, [plugin.source]
    while todo:
        for path in _neighbours(todo.pop(), folder):
            if path not in sources:
                sources[path] = Plugin.read(path).source
                todo.append(sources[path])
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(sources):
        digest.update(sources[path])
    return digest.hexdigest()


def _neighbours(source: bytes, folder: str) -> Iterator[str]:
    """The files beside the plugin that this code imports; all of a package, whichever part is meant."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError):
        return  # loading it will say so
    modules = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    modules += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    for name in {module.partition(".")[0] for module in modules}:
        if os.path.isfile(path := os.path.join(folder, f"{name}.py")):
            yield path
        for top, _, names in os.walk(os.path.join(folder, name)):
            yield from (os.path.join(top, file) for file in names if file.endswith(".py"))


@contextlib.contextmanager
def users_code(path: str, *, interrupts_too: bool = False) -> Iterator[None]:
    """Round every call of the user's code, and nowhere else: whatever it raises, sys.exit included, comes out as a
    PluginError with the traceback. A real Ctrl-C passes, unless `interrupts_too`: in a worker it can't be one."""
    try:
        yield
    except KeyboardInterrupt as error:
        if not interrupts_too:
            raise
        raise PluginError(path, describe(error, path), _users_trace(error, path)) from None
    except PluginError:
        raise
    except BaseException as error:  # noqa: BLE001 - without it sys.exit() in a parser would end the crawl with 0
        raise PluginError(path, describe(error, path), _users_trace(error, path)) from None


def describe(error: BaseException, path: str) -> str:
    """One line: type, message, and the last line of `path` that the error, or what caused it, passed through."""
    lines = _lines_of(error, path) or (_lines_of(error.__cause__, path) if error.__cause__ else [])
    if isinstance(error, SyntaxError) and error.filename == path:
        lines = [error.lineno]
    at = f"line {lines[-1]}: " if lines else ""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - the user's own __str__; without this its fault would end the crawl
        message = "(its message can't be shown)"
    text = printable(message[:500].strip().replace("\n", " "))
    return f"{at}{type(error).__name__}{': ' + text if text else ''}"


def _users_trace(error: BaseException, path: str) -> str:
    """The traceback from the first frame in the user's file on: what we did before is no help to them."""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename != path:
        frame = frame.tb_next
    return "".join(traceback.format_exception(type(error), error, frame))


def _lines_of(error: BaseException, path: str) -> list[int | None]:
    return [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]


# ── create.py ────────────────────────────────────────────────────────────────────────────────────────────────────────


def call_create(plugin: Plugin, arguments: Sequence[str]) -> Iterator[Task]:
    """The tasks that the user's create() yields for these words of the command line."""
    create = load(plugin, "create")
    values = convert(create, arguments)
    with users_code(plugin.path):
        given = create(*values)
        things = iter((given,) if isinstance(given, str | Mapping | Task) else given or ())
    for number in itertools.count(1):
        with users_code(plugin.path):
            thing = next(things, _END)
        if thing is _END:
            return
        try:
            task = as_task(thing, by="create")
        except (ValueError, TypeError, TaskFileError) as error:
            raise PluginError(plugin.path, f"task {number} that create() yields: {error}") from None
        yield task


_END = object()


def signature_of(function: Callable[..., Any]) -> str:
    """`create FIRST:int LAST:int [SITE]`, for help and for usage errors."""
    words = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD):
            continue  # the command line has no way to say them
        kind = _kind(parameter)
        word = parameter.name.upper() + (f":{kind.__name__}" if kind is not str else "")
        if parameter.kind is parameter.VAR_POSITIONAL:
            word += "..."
        words.append(f"[{word}]" if parameter.default is not parameter.empty else word)
    return " ".join(words)


def convert(function: Callable[..., Any], arguments: Sequence[str]) -> list[Any]:
    """The arguments as the function's annotations want them; a UsageError shows the signature."""
    usage = f"usage: sc create {signature_of(function)}"
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*arguments)
    except TypeError as error:
        raise UsageError(f"create(): {error}; {usage}") from None
    values: list[Any] = []
    for name, given in bound.arguments.items():
        parameter = signature.parameters[name]
        for text in given if parameter.kind is parameter.VAR_POSITIONAL else (given,):
            try:
                values.append(_CONVERTERS[_kind(parameter)](text))
            except ValueError:
                wanted = _kind(parameter).__name__
                raise UsageError(f"create(): {name} must be {wanted}, not {text!r}; {usage}") from None
    return values


def _kind(parameter: inspect.Parameter) -> type:
    """What an argument is converted to: the first of int, float and bool that its annotation allows, else text.

    By name where annotations are strings: what else stands there (`from __future__ import annotations`) need not exist.
    """
    annotation = parameter.annotation
    if isinstance(annotation, str):
        words = re.findall(r"\w+", annotation)
        return next((kind for kind in (int, float, bool) if kind.__name__ in words), str)
    return next((kind for kind in get_args(annotation) or (annotation,) if kind in (int, float, bool)), str)


def _boolean(text: str) -> bool:
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("0", "false", "no", "off"):
        return False
    raise ValueError(text)


_CONVERTERS: Mapping[type, Callable[[str], Any]] = {int: int, float: float, bool: _boolean, str: str}


# ── what plugins yield ───────────────────────────────────────────────────────────────────────────────────────────────


def as_task(thing: object, *, by: By) -> Task:
    """A url, a dict of curl options (+ name, meta) or a Task, as a task. ValueError or TypeError says what is wrong."""
    if isinstance(thing, Task):
        check_name(thing.name)  # it becomes a path
        return thing
    if isinstance(thing, str):
        return make_task(thing, {}, by=by)
    if isinstance(thing, Mapping):
        if "url" not in thing:
            raise ValueError(f"a dict without 'url': {printable(repr(thing))[:200]}")
        return make_task(str(thing["url"]), thing, by=by)
    raise TypeError(f"create() yields urls, dicts or Task, not {type(thing).__name__}: {printable(repr(thing))[:200]}")


def make_task(
    url: str, given: Mapping[str, Any], *, by: By, base: Iterable[Option] = DEFAULTS, parent: Task | None = None
) -> Task:
    """A task for `url` with the options of `base`, changed by what is given (keys with `-` or `_`)."""
    changes = {key.replace("_", "-"): value for key, value in given.items()}
    meta = changes.get("meta") or {}
    if not isinstance(meta, Mapping):
        raise TypeError(f"meta must be a dict, not {type(meta).__name__}")
    url = clean_url(url).partition("#")[0]  # never sent, and not part of the name: whichever came first would stay
    output = str(changes.get("output") or "")
    if output and not _UNDER_HTML(output):
        raise ValueError(f"output {printable(output)!r} lies outside html/; write html/NAME.html")
    options = _options(changes, base)
    if needs_globoff(url):
        options.append(Option("globoff", True))
    return new_task(
        url,
        by=by,
        name=str(changes.get("name") or ""),
        options=options,
        output=output,
        meta=meta,
        parent=parent.name if parent else "",
        depth=_depth(parent) + 1 if parent else 0,
        same_host=parent is not None and same_host(url, parent),
    )


def follow(parent: Task, url: str, given: Mapping[str, Any]) -> Task:
    """The task for a link on the parent's page: the parent's options, but not its body, method, output or range; its
    secrets go to the same origin only."""
    same = origin_of(url) == origin_of(parent.url)
    base = [
        option for option in parent.options if option.name not in _NOT_INHERITED and (same or not _is_secret(option))
    ]
    return make_task(url, given, by="follow", base=base, parent=parent)


def _is_secret(option: Option) -> bool:
    return option.name in _SECRETS or (
        option.name == "header" and str(option.value).lower().startswith(_SECRET_HEADERS)
    )


def _depth(task: Task) -> int:
    depth = task.created.facts.get("depth", 0)
    return depth if isinstance(depth, int) else 0


def _options(changes: Mapping[str, Any], base: Iterable[Option]) -> list[Option]:
    """`base` with each changed option in place of its own kind; read back once, so that a wrong one is named here."""
    named = [name for name in changes if name not in OUR_KEYS]
    for name in named:
        if name not in OPTIONS:
            near = nearest(name)
            raise ValueError(f"unknown curl option {printable(name)!r}" + (f"; did you mean {near!r}?" if near else ""))
    options = [option for option in base if option.name not in changes]
    for name in named:
        options += [Option(name, value) for value in _values(name, changes[name])]
    parse_config(format_config([Option("url", "http://x/"), *options]), "this task")
    return options


def _values(name: str, value: Any) -> list[str | bool]:
    if isinstance(value, list | tuple):
        return [one for each in value for one in _values(name, each)]
    if value is None or (value is False and not OPTIONS[name].negatable):
        return []
    if isinstance(value, bool):
        return [value] if value or OPTIONS[name].negatable else []
    if isinstance(value, str | int | float):
        return [str(value)]
    raise TypeError(
        f"option {name!r} must be text, a number, true or false, or a list of these, not {type(value).__name__}"
    )
