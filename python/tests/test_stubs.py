"""The stubs name the functions that exist, with their arguments."""

import ast
import importlib
import inspect
from pathlib import Path

import faltung
import pytest

FOLDER = Path(faltung.__file__).parent
FUNCTIONS = [
    (stub.stem, node)
    for stub in sorted(FOLDER.glob("*.pyi"))
    for node in ast.parse(stub.read_text()).body
    if isinstance(node, ast.FunctionDef)
]


def arguments(node):
    """Kind, name and default of each argument of a stub."""
    of, kinds = node.args, inspect.Parameter
    plain = [None] * (len(of.args) - len(of.defaults)) + of.defaults
    named = [(kinds.POSITIONAL_OR_KEYWORD, a, value) for a, value in zip(of.args, plain)]
    named += [(kinds.KEYWORD_ONLY, a, value) for a, value in zip(of.kwonlyargs, of.kw_defaults)]
    found = [(kind, a.arg, inspect.Parameter.empty if v is None else ast.literal_eval(v)) for kind, a, v in named]
    return found + ([(kinds.VAR_KEYWORD, of.kwarg.arg, kinds.empty)] if of.kwarg else [])


@pytest.mark.parametrize("module, node", FUNCTIONS, ids=[f"{module}.{node.name}" for module, node in FUNCTIONS])
def test_arguments(module, node):
    module = faltung if module == "__init__" else importlib.import_module(f"faltung.{module}")
    parameters = inspect.signature(getattr(module, node.name)).parameters.values()
    found = [(p.kind, p.name, p.default) for p in parameters]
    # The functions of `ndimage` are wrapped: what they take as `accuracy` comes in as `_exact`.
    found = [(kind, "accuracy", None) if name == "_exact" else (kind, name, value) for kind, name, value in found]
    assert found == arguments(node)


@pytest.mark.parametrize("name", ["Device", "DeviceArray"])
def test_attributes_of_classes(name):
    nodes = ast.parse((FOLDER / "__init__.pyi").read_text()).body
    (stub,) = [node for node in nodes if isinstance(node, ast.ClassDef) and node.name == name]
    stubbed = {node.name for node in stub.body if isinstance(node, ast.FunctionDef)} - {"__init__"}
    own = {attribute for attribute in vars(getattr(faltung, name)) if not attribute.startswith("_")}
    assert own == {attribute for attribute in stubbed if not attribute.startswith("_")}
    assert all(hasattr(getattr(faltung, name), attribute) for attribute in stubbed)


def test_public_names_have_stubs():
    stubbed = {node.name for node in ast.parse((FOLDER / "__init__.pyi").read_text()).body if hasattr(node, "name")}
    public = {name for name, value in vars(faltung).items() if callable(value) and not name.startswith("_")}
    assert public == stubbed
