import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.cloud import hooks
from sandbox.cloud.hooks import HOOKS, MINISTACK_VERSION, Hook, HookMissingError, check


def test_the_pinned_ministack_has_every_hook() -> None:
    check()


def test_every_hook_says_which_file_needs_it() -> None:
    assert all(".py)" in hook.used_for for hook in HOOKS)


def test_another_version_is_refused() -> None:
    with pytest.raises(HookMissingError, match=rf"version 9\.9\.9 is installed; .* written for {MINISTACK_VERSION}"):
        check(version="9.9.9")


def test_a_vanished_hook_is_named() -> None:
    vanished = Hook(module="ministack.app", name="_no_such", used_for="a test (here.py)")
    with pytest.raises(
        HookMissingError, match=r"ministack\.app\._no_such is gone; it is needed for a test \(here\.py\)"
    ):
        check([vanished])


def test_a_changed_signature_is_shown_beside_the_expected_one() -> None:
    changed = Hook(module="ministack.app", name="app", parameters=("scope", "receive"), used_for="serving (x.py)")
    with pytest.raises(HookMissingError, match=r"takes \(scope, receive, send\), not \(scope, receive\)"):
        check([changed])


def test_data_of_another_type_is_refused() -> None:
    changed = Hook(module="ministack.app", name="SERVICE_HANDLERS", kind=list, used_for="serving (x.py)")
    with pytest.raises(HookMissingError, match="is a dict, not a list"):
        check([changed])


def test_all_differences_are_listed_at_once() -> None:
    missing = [Hook(module="ministack.app", name=name, used_for="x (x.py)") for name in ("_one", "_two")]
    with pytest.raises(HookMissingError) as caught:
        check(missing, version="0")
    assert all(word in str(caught.value) for word in ("version 0", "_one", "_two"))


def test_nothing_of_ministack_is_used_that_is_not_checked() -> None:
    checked = {(hook.module, hook.name) for hook in HOOKS}
    used = {found for file in Path(hooks.__file__).parent.glob("*.py") for found in _used(file)}
    assert used - checked == set()
    assert checked - used == set(), "a hook is checked that nothing uses"


def _used(file: Path) -> Iterator[tuple[str, str]]:
    """(module, name) of everything of MiniStack that a file imports, or reaches through a module that it imports."""
    tree = ast.parse(file.read_text())
    modules = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ministack"
        for alias in node.names
    }
    for full_name in modules.values():
        try:
            importlib.import_module(full_name)
        except ModuleNotFoundError:
            module, _, name = full_name.rpartition(".")
            yield module, name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            yield modules[node.value.id], node.attr
